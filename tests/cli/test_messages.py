"""Messages and exit codes of the command line for wrong usage and invalid files."""

from __future__ import annotations

import json

import boto3
import pytest

from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack_local.moto_patches import images_and_quotas


def outcome(capsys: pytest.CaptureFixture[str], project: Project, *arguments: str) -> tuple[int, str, str]:
    code = run(["--project", str(project.root), *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err.replace(f"{project.root}/", "")


def test_gpu_endpoint_cannot_be_built_locally(project, capsys):
    edit(project.environment_file("dev"), "ml.c7i.xlarge", "ml.g5.xlarge")
    code, _, err = outcome(capsys, project, "build", "dev", "--no-publish")
    assert code == 2
    assert "sm86-25.04-py312 needs" in err


def test_the_clouds_capabilities_are_listed(project, capsys):
    code, out, _ = outcome(capsys, project, "--json", "up", "--capabilities")
    result = json.loads(out)
    assert code == 0
    assert "AWS::SageMaker::Endpoint" in {item["type"] for item in result["types"]}
    assert "ProductionVariant.InstanceType" in {limit["name"] for limit in result["limits"]}


def test_quotas_have_the_accounts_value_the_code_and_the_request(project, account, capsys, monkeypatch):
    edit(project.environment_file("dev"), "1" * 12, account)
    monkeypatch.setattr(images_and_quotas, "VALUE", 2.0)
    code, out, _ = outcome(capsys, project, "--json", "quotas", "dev")
    result = json.loads(out)
    assert code == 0
    assert (result["account"], result["region"]) == (account, "eu-west-1")
    listed = {
        quota["QuotaName"]: quota["QuotaCode"]
        for quota in boto3.client("service-quotas", "eu-west-1").list_service_quotas(ServiceCode="sagemaker")[
            "Quotas"
        ]
    }
    quota_code = listed["ml.c7i.xlarge for endpoint usage"]
    quota = result["quotas"][0]
    assert (quota["value"], quota["least"], quota["code"], quota["account_value"]) == (4, 1, quota_code, 2.0)
    assert f"--quota-code {quota_code} --desired-value 4 --region eu-west-1" in quota["request"]
    assert result["quotas"][-1]["request"] is None
    _, out, _ = outcome(capsys, project, "quotas", "dev")
    assert f"xlarge for endpoint usage (sagemaker {quota_code})" in out
    assert result["quotas"][0]["request"] in out
