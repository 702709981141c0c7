"""The build stack: its projects, their permissions, and what changes it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stacks.environment import add_environment
from tests.stacks.assemblies import ROOT, Assembly, lock_everything, new_app, write_project
from tests.stacks.templates import of_type
from tritonstack.base.errors import UsageError
from tritonstack.base.revisions import BUILD_CODE
from tritonstack.constructs.builds import builds as build_source
from tritonstack.files.loading import load_workspace

HOME = "eu-central-1:123456789012"
BASE = "tritonstack-factory"
SHARED, OWN, CHAIN = "JobsShared", "JobsOwnown", "JobsOwnchain"
"""What the logical ids of the jobs' roles begin with."""
ARTIFACTS = f"arn:aws:s3:::{BASE}-artifacts-123456789012-eu-central-1"


@pytest.fixture
def template(factory: Assembly) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(factory.text(f"{BASE}-build"))
    return document


def project(template: dict[str, Any], name: str) -> dict[str, Any]:
    (properties,) = [
        item
        for item in of_type(template, "AWS::CodeBuild::Project").values()
        if item["Name"] == f"{BASE}-build-{name}"
    ]
    return properties


def statements(template: dict[str, Any], role: str) -> list[dict[str, Any]]:
    """Return the permissions of the role whose logical id starts so."""
    (document,) = [
        item["Properties"]["PolicyDocument"]["Statement"]
        for name, item in template["Resources"].items()
        if item["Type"] == "AWS::IAM::Policy" and name.startswith(role)
    ]
    allowed: list[dict[str, Any]] = document
    return allowed


def granting(allowed: list[dict[str, Any]], action: str) -> list[dict[str, Any]]:
    return [statement for statement in allowed if action in statement["Action"]]


def buildspec(properties: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(properties["Source"]["BuildSpec"])
    return spec


def resources(allowed: list[dict[str, Any]]) -> Iterator[Any]:
    for statement in allowed:
        yield from statement["Resource"]


def test_models_are_not_built_as_root(template):
    spec = buildspec(project(template, "sm86"))
    assert spec["run-as"] == "builder"
    assert "useradd" in (ROOT / "containers" / "builder" / "Dockerfile").read_text()


def test_the_hub_token_is_read_by_jobs_and_never_stored(template):
    (granted,) = granting(statements(template, SHARED), "secretsmanager:GetSecretValue")
    assert granted["Resource"] == [f"arn:aws:secretsmanager:{HOME}:secret:search/hugging-face-??????"]
    for role in ("ImagesRole", OWN, CHAIN):
        assert not granting(statements(template, role), "secretsmanager:GetSecretValue")
    assert "HF_TOKEN" not in json.dumps(of_type(template, "AWS::CodeBuild::Project"))


def test_jobs_write_only_model_artifacts_and_delete_nothing(template):
    for role, prefix in ((SHARED, "models"), (OWN, "models/own"), (CHAIN, "models/chain")):
        allowed = statements(template, role)
        (granted,) = granting(allowed, "s3:PutObject")
        assert granted["Resource"] == [f"{ARTIFACTS}/{prefix}/*"]
        listed = [item["Condition"] for item in allowed if item["Resource"] == [ARTIFACTS]]
        assert listed == [{"StringLike": {"s3:prefix": f"{prefix}/*"}}]
        assert not [action for item in allowed for action in item["Action"] if "Delete" in action]
        assert "*" not in [
            resource
            for item in allowed
            if item["Action"] != ["ecr:GetAuthorizationToken"]
            for resource in item["Resource"]
        ]


def test_a_model_with_custom_code_cannot_access_other_models(template):
    """Whatever that code does with its job's credentials: each statement names the model, or allows reading
    only public data.
    """
    for role, model in ((OWN, "own"), (CHAIN, "chain")):
        reached = [
            resource for resource in resources(statements(template, role)) if isinstance(resource, str)
        ]
        in_bucket = {resource for resource in reached if resource.startswith(f"{ARTIFACTS}/")}
        assert in_bucket == {f"{ARTIFACTS}/models/{model}/*"}
        services = {resource.split(":")[2] for resource in reached if resource != "*"}
        assert services <= {"s3", "ecr", "logs"}
    parameters = {
        item["Name"]: item["Value"]["Fn::GetAtt"][0]
        for item in of_type(template, "AWS::SSM::Parameter").values()
    }
    assert {name: role.startswith("JobsOwn") for name, role in parameters.items()} == {
        f"/{BASE}/build-roles/own": True,
        f"/{BASE}/build-roles/chain": True,
    }


def test_too_many_models_with_code_are_rejected_before_cloudformation_does(factory, monkeypatch, tmp_path):
    monkeypatch.setattr("tritonstack.constructs.builds.build_roles.MOST_OWN_ROLES", 1)
    with pytest.raises(UsageError, match=r"2 models .* at most 1"):
        synthesized(tmp_path, factory.workspace)


def test_jobs_start_from_one_archive_and_read_no_other(template):
    source = template["Outputs"]["SourceArchive"]["Value"]
    for item in of_type(template, "AWS::CodeBuild::Project").values():
        assert (item["Source"]["Type"], item["Source"]["Location"]) == ("S3", source)
    for role in ("ImagesRole", SHARED, OWN, CHAIN):
        (granted,) = granting(statements(template, role), "s3:GetObjectVersion")
        assert granted["Resource"] == [f"arn:aws:s3:::{source}"]


PUSH = {
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
}
"""What the ECR user guide lists for a push, but for the token."""


def test_only_the_image_build_pushes(template):
    repository = f"arn:aws:ecr:{HOME}:repository/{BASE}/builder"
    (granted,) = granting(statements(template, "ImagesRole"), "ecr:PutImage")
    assert granted["Resource"] == [repository]
    assert set(granted["Action"]) >= PUSH
    for role in (SHARED, OWN, CHAIN):
        assert not granting(statements(template, role), "ecr:PutImage")
        (pulled,) = granting(statements(template, role), "ecr:BatchGetImage")
        assert pulled["Resource"] == [repository]


def test_roles_are_assumable_only_by_these_projects_and_jobs(template):
    roles = of_type(template, "AWS::IAM::Role").values()
    trusted = [role["AssumeRolePolicyDocument"]["Statement"] for role in roles]
    codebuild = f"arn:aws:codebuild:{HOME}:project/{BASE}-build-"
    ((images,), *jobs) = sorted(trusted, key=len)
    account = {"aws:SourceAccount": HOME.partition(":")[2]}
    assert images["Condition"] == {"StringEquals": {"aws:SourceArn": f"{codebuild}images", **account}}
    assert len(jobs) == 3
    for builds, processing in jobs:
        assert builds["Principal"] == {"Service": "codebuild.amazonaws.com"}
        projects = builds["Condition"]["StringEquals"]["aws:SourceArn"]
        assert sorted(projects) == [f"{codebuild}{name}" for name in ("cpu", "sm75", "sm86")]
        assert processing["Principal"] == {"Service": "sagemaker.amazonaws.com"}
        assert processing["Condition"] == {
            "StringEquals": {"aws:SourceAccount": "123456789012"},
            "ArnLike": {"aws:SourceArn": f"arn:aws:sagemaker:{HOME}:processing-job/{BASE}-build-*"},
        }


def synthesized(folder: Path, workspace: Any) -> Path:
    app = new_app(folder)
    add_environment(app, workspace=workspace)
    app.synth()
    return folder


def test_archive_has_the_build_code_without_the_command_line(tmp_path, monkeypatch):
    packages = tmp_path / "site-packages"
    for name in ("tritonstack", "model_build"):
        shutil.copytree(ROOT / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(build_source, "PACKAGES", packages)
    project = write_project(tmp_path / "project")
    lock_everything(project, "kept")

    def source(name: str) -> Path:
        outdir = synthesized(tmp_path / name, load_workspace(project, "kept"))
        (archive,) = outdir.glob("asset.*/model_build")
        return archive.parent

    first = source("first")
    shipped_images = {"builder", "publish.sh", "serving"}
    assert {entry.name for entry in (first / "containers").iterdir()} == shipped_images
    assert {entry.name for entry in (first / "models").iterdir()} == {"encoder", "ranker", "tokens"}
    imported = {*(name.partition("/")[2] for name in BUILD_CODE if "/" in name), "__init__.py"}
    assert {entry.name for entry in (first / "tritonstack").iterdir()} == imported
    with (packages / "tritonstack/cli/main.py").open("a") as file:
        file.write("# changed\n")
    (packages / "model_build/__main__.py").touch()
    assert source("cli").name == first.name
    with (packages / "model_build/__main__.py").open("a") as file:
        file.write("# changed\n")
    assert source("build").name != first.name
