"""Messages and exit codes of the command line for wrong usage and invalid files."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import boto3
import pytest

from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack_local.moto_patches import service_quotas


def outcome(capsys: pytest.CaptureFixture[str], project: Project, *arguments: str) -> tuple[int, str, str]:
    code = run(["--project", str(project.root), *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err.replace(f"{project.root}/", "")


def test_validate_lists_valid_environments_and_models(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = outcome(capsys, project, "validate")
    assert (code, out) == (0, "valid: environments dev; models minilm; not deployable yet: dev\n")
    assert err.startswith(
        "to build: environments/dev.yaml:8: endpoints.search.model: dev.lock.yaml has no artifact"
    )
    assert err.endswith("\nnext: tritonstack build dev\n")


def test_validate_prints_what_to_build_after_the_result(project: Project) -> None:
    entry = "from tritonstack.cli.entry import main; main()"
    command = [sys.executable, "-c", entry, "--project", str(project.root), "validate"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    kinds = [line.partition(":")[0].strip() for line in done.stdout.splitlines()]
    assert kinds == ["valid", "to build", "help", "next"]


def test_validate_as_json(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["--project", str(project.root), "--json", "validate"])
    result = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (result["valid"], result["environments"], result["models"]) == (True, ["dev"], ["minilm"])


def test_a_misspelled_key(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    edit(project.environment_file("dev"), "instance_type:", "instance_typ:")
    code, out, err = outcome(capsys, project, "validate")
    assert (code, out) == (2, "")
    assert "environments/dev.yaml:9: endpoints.search.instance_typ: unknown key" in err
    assert "did you mean 'instance_type'?" in err


@pytest.mark.parametrize("command", ["validate", "build", "diff", "deploy", "destroy"])
def test_an_unknown_environment(project: Project, capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, _, err = outcome(capsys, project, command, "dve")
    assert code == 2
    assert err == "error[TS903]: unknown environment 'dve'\n  help: did you mean 'dev'?\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "dev", "minilmm"], "environment 'dev' does not serve model 'minilmm'"),
        (["invoke", "dev", "serch"], "environment 'dev' has no endpoint 'serch'"),
    ],
)
def test_unknown_names_get_a_suggestion(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    edit(project.environment_file("dev"), "111111111111", "000000000000")
    code, _, err = outcome(capsys, project, *arguments, *(["--no-publish"] if "build" in arguments else []))
    assert code == 2
    assert err.startswith(f"error[TS903]: {message}\n  help: did you mean")


@pytest.mark.parametrize("command", ["diff", "deploy"])
def test_deploying_a_model_missing_from_the_lock(
    project: Project, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, _, err = outcome(capsys, project, command, "dev")
    assert code == 2
    assert "dev.lock.yaml has no artifact of 'minilm' for cpu or cpu-py312" in err
    assert "help: run `tritonstack build dev` and commit dev.lock.yaml" in err


def test_gpu_endpoint_cannot_be_built_locally(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    edit(project.environment_file("dev"), "ml.c7i.xlarge", "ml.g5.xlarge")
    code, _, err = outcome(capsys, project, "build", "dev", "--no-publish")
    assert code == 2
    assert "this machine has no GPU, which sm86-25.04-py312 needs" in err


def test_the_embedded_cloud_must_run(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    edit(project.environment_file("dev"), "111111111111", "000000000000")
    code, _, err = outcome(capsys, project, "invoke", "dev", "search")
    assert code == 1
    assert "is in the local cloud, which is not running" in err
    assert "help: start it with `tritonstack up --detach`" in err


def test_a_protected_environment_is_not_destroyed(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = outcome(capsys, project, "destroy", "dev", "--yes")
    assert code == 2
    assert (
        "environment 'dev' is protected by environments/dev.yaml (the default when `removal` retains data)"
        in err
    )


def test_usage_error_is_exit_2(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, project, "deploy")
    assert code == 2
    assert "Missing argument 'environment'" in err
    assert "run `tritonstack deploy --help`" in err


def test_a_misspelled_command_gets_a_suggestion(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, project, "validte")
    assert code == 2
    assert "validate" in err


@pytest.mark.parametrize(
    "command", ["validate", "quotas", "up", "down", "build", "diff", "deploy", "invoke", "destroy"]
)
def test_every_command_has_help_with_an_example(
    capsys: pytest.CaptureFixture[str], project: Project, command: str
) -> None:
    code, out, _ = outcome(capsys, project, command, "--help")
    assert code == 0
    assert re.search(rf"Examples?:\n    tritonstack {command}", out)


def test_the_clouds_capabilities_are_listed(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, project, "--json", "up", "--capabilities")
    result = json.loads(out)
    assert code == 0
    assert "AWS::SageMaker::Endpoint" in {item["type"] for item in result["types"]}
    assert "ProductionVariant.InstanceType" in {limit["name"] for limit in result["limits"]}


def test_quotas_without_access_list_what_is_needed_with_reasons(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = outcome(capsys, project, "quotas", "dev")
    assert code == 0
    assert out.splitlines() == [
        "needed  account  quota",
        "     4        ?  ml.c7i.xlarge for endpoint usage (sagemaker)",
        "                   search: 2 instances, doubled during an update",
        "     4        ?  Number of instances across active endpoints (sagemaker)",
        "                   all endpoints combined",
        "     1        ?  Scalable targets for SageMaker (application-autoscaling)",
        "                   one per scaled variant of search",
        "     1        ?  Concurrently running builds for Linux/Large environment (codebuild)",
        "                   builds of minilm",
    ]
    assert "cannot access AWS account 111111111111" in err


def test_quotas_have_the_accounts_value_the_code_and_the_request(
    project: Project, account: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(project.environment_file("dev"), "1" * 12, account)
    monkeypatch.setattr(service_quotas, "VALUE", 2.0)
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
    assert result["quotas"][0] == {
        "service": "sagemaker",
        "name": "ml.c7i.xlarge for endpoint usage",
        "value": 4,
        "reasons": ["search: 2 instances, doubled during an update"],
        "least": 1,
        "code": quota_code,
        "account_value": 2.0,
        "request": "aws service-quotas request-service-quota-increase --service-code sagemaker "
        f"--quota-code {quota_code} --desired-value 4 --region eu-west-1",
    }
    assert result["quotas"][-1]["request"] is None
    _, out, _ = outcome(capsys, project, "quotas", "dev")
    assert f"     4        2  ml.c7i.xlarge for endpoint usage (sagemaker {quota_code})" in out.splitlines()
    assert result["quotas"][0]["request"] in out
