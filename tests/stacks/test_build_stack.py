"""The build stack: what builds, with what rights, and what changes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.loading import load_workspace
from stacks.environment import add_environment
from tests.projects import edit
from tests.stacks.assemblies import ROOT, Assembly, lock_everything, new_app, write_project
from tests.stacks.factory import FLEET

HOME = "eu-central-1:123456789012"
BASE = "tritonstack-factory"
ARTIFACTS = f"arn:aws:s3:::{BASE}-artifacts-123456789012-eu-central-1"


def build_stack(assembly: Assembly) -> dict[str, Any]:
    template: dict[str, Any] = json.loads(assembly.text(f"{assembly.workspace.spec.base}-build"))
    return template


@pytest.fixture
def template(factory: Assembly) -> dict[str, Any]:
    return build_stack(factory)


def of_type(template: dict[str, Any], resource_type: str) -> list[dict[str, Any]]:
    return [item["Properties"] for item in template["Resources"].values() if item["Type"] == resource_type]


def project(template: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [
        item
        for item in of_type(template, "AWS::CodeBuild::Project")
        if item["Name"] == f"{BASE}-build-{name}"
    ]
    return found


def statements(template: dict[str, Any], role: str) -> list[dict[str, Any]]:
    """What the role whose logical id begins so may do."""
    (found,) = [
        item["Properties"]["PolicyDocument"]["Statement"]
        for name, item in template["Resources"].items()
        if item["Type"] == "AWS::IAM::Policy" and name.startswith(role)
    ]
    allowed: list[dict[str, Any]] = found
    return allowed


def granting(allowed: list[dict[str, Any]], action: str) -> list[dict[str, Any]]:
    return [statement for statement in allowed if action in statement["Action"]]


def buildspec(properties: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(properties["Source"]["BuildSpec"])
    return found


def resources(allowed: list[dict[str, Any]]) -> Iterator[Any]:
    for statement in allowed:
        yield from statement["Resource"]


def test_there_is_a_project_for_each_kind_of_machine_and_no_other(template):
    names = {item["Name"] for item in of_type(template, "AWS::CodeBuild::Project")}
    assert names == {f"{BASE}-build-{name}" for name in ("images", "cpu", "sm86", "sm75")}


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("cpu", {"Type": "LINUX_CONTAINER", "ComputeType": "BUILD_GENERAL1_LARGE"}),
        ("sm86", {"Type": "LINUX_GPU_CONTAINER", "ComputeType": "BUILD_GENERAL1_SMALL"}),
        ("sm75", {"Type": "LINUX_GPU_CONTAINER", "Fleet": {"FleetArn": FLEET}}),
        ("images", {"Type": "LINUX_CONTAINER", "ImagePullCredentialsType": "CODEBUILD"}),
    ],
)
def test_each_project_has_its_machine(template, name, machine):
    environment = project(template, name)["Environment"]
    assert environment.items() >= machine.items()
    assert environment["PrivilegedMode"] is (name == "images")


def test_models_are_built_in_the_image_that_serves_and_pulled_with_the_projects_role(template):
    registry = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/tritonstack-factory/builder"
    for name, tag in (("cpu", "24.09-py3-cpu-"), ("sm86", "24.09-py3-")):
        environment = project(template, name)["Environment"]
        assert environment["ImagePullCredentialsType"] == "SERVICE_ROLE"
        assert environment["Image"].startswith(f"{registry}:{tag}")
        assert len(environment["Image"].rpartition("-")[2]) == 12


def test_the_images_are_built_from_sagemakers_own(template):
    commands = buildspec(project(template, "images"))["phases"]["build"]["commands"]
    base = "763104351884.dkr.ecr.eu-central-1.amazonaws.com/sagemaker-tritonserver:24.09-py3"
    outputs = template["Outputs"]
    assert commands == [
        f"sh containers/builder/publish.sh {base}-cpu {outputs['CpuImage']['Value']} "
        "https://download.pytorch.org/whl/cpu",
        f"sh containers/builder/publish.sh {base} {outputs['GpuImage']['Value']}",
    ]


def test_models_are_not_built_as_root(template):
    spec = buildspec(project(template, "sm86"))
    assert spec["run-as"] == "builder"
    assert "useradd" in (ROOT / "containers" / "builder" / "Dockerfile").read_text()


def test_the_token_is_fetched_from_its_secret_and_stands_nowhere(template):
    variables = project(template, "cpu")["Environment"]["EnvironmentVariables"]
    assert {"Name": "HF_TOKEN", "Type": "SECRETS_MANAGER", "Value": "search/hugging-face"} in variables
    assert project(template, "images")["Environment"]["EnvironmentVariables"] == []
    for role in ("ModelsRole", "ProcessingRole"):
        (granted,) = granting(statements(template, role), "secretsmanager:GetSecretValue")
        assert granted["Resource"] == [f"arn:aws:secretsmanager:{HOME}:secret:search/hugging-face-??????"]
    assert not granting(statements(template, "ImagesRole"), "secretsmanager:GetSecretValue")


def test_jobs_write_artifacts_records_and_caches_and_delete_nothing(template):
    for role in ("ModelsRole", "ProcessingRole"):
        allowed = statements(template, role)
        (granted,) = granting(allowed, "s3:PutObject")
        assert granted["Resource"] == [f"{ARTIFACTS}/{prefix}/*" for prefix in ("models", "builds", "caches")]
        assert not [action for item in allowed for action in item["Action"] if "Delete" in action]
        assert "*" not in [
            one
            for item in allowed
            if item["Action"] != ["ecr:GetAuthorizationToken"]
            for one in item["Resource"]
        ]


def test_models_in_buckets_are_read_from_their_own_prefix(template):
    for role in ("ModelsRole", "ProcessingRole"):
        allowed = statements(template, role)
        assert ["arn:aws:s3:::team-models/far/v3/*"] in [item["Resource"] for item in allowed]
        assert {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": ["arn:aws:s3:::team-models"],
            "Condition": {"StringLike": {"s3:prefix": "far/v3/*"}},
        } in allowed


def test_jobs_start_from_one_archive_and_read_no_other(template):
    source = template["Outputs"]["SourceArchive"]["Value"]
    for item in of_type(template, "AWS::CodeBuild::Project"):
        assert (item["Source"]["Type"], item["Source"]["Location"]) == ("S3", source)
    for role in ("ImagesRole", "ModelsRole", "ProcessingRole"):
        (granted,) = granting(statements(template, role), "s3:GetObjectVersion")
        assert granted["Resource"] == [f"arn:aws:s3:::{source}"]


def test_only_the_image_build_pushes(template):
    repository = f"arn:aws:ecr:{HOME}:repository/{BASE}/builder"
    (granted,) = granting(statements(template, "ImagesRole"), "ecr:PutImage")
    assert granted["Resource"] == [repository]
    for role in ("ModelsRole", "ProcessingRole"):
        assert not granting(statements(template, role), "ecr:PutImage")
        (pulled,) = granting(statements(template, role), "ecr:BatchGetImage")
        assert pulled["Resource"] == [repository]


def test_roles_are_taken_on_for_these_projects_and_jobs_alone(template):
    conditions = [
        item["AssumeRolePolicyDocument"]["Statement"][0]["Condition"]
        for item in of_type(template, "AWS::IAM::Role")
    ]
    codebuild = f"arn:aws:codebuild:{HOME}:project/{BASE}-build-"
    assert {"StringEquals": {"aws:SourceArn": f"{codebuild}images"}} in conditions
    assert {
        "StringEquals": {"aws:SourceArn": [f"{codebuild}{name}" for name in ("cpu", "sm75", "sm86")]}
    } in [
        {"StringEquals": {"aws:SourceArn": sorted(item["StringEquals"]["aws:SourceArn"])}}
        for item in conditions
        if isinstance(item["StringEquals"].get("aws:SourceArn"), list)
    ]
    assert any(
        item.get("ArnLike") == {"aws:SourceArn": f"arn:aws:sagemaker:{HOME}:processing-job/{BASE}-build-*"}
        for item in conditions
    )


def test_the_log_is_encrypted_kept_for_a_while_and_written_by_all(template):
    (group,) = of_type(template, "AWS::Logs::LogGroup")
    assert (group["LogGroupName"], group["RetentionInDays"]) == (f"/{BASE}/builds", 30)
    assert group["KmsKeyId"] == {"Ref": "KeyArn"}
    for item in of_type(template, "AWS::CodeBuild::Project"):
        log = item["LogsConfig"]["CloudWatchLogs"]
        assert (log["Status"], log["StreamName"]) == ("ENABLED", item["Name"])
        assert "Ref" in log["GroupName"]


def test_builds_of_different_models_run_at_once_and_not_for_ever(template):
    for item in of_type(template, "AWS::CodeBuild::Project"):
        limits = (item["ConcurrentBuildLimit"], item["TimeoutInMinutes"], item["QueuedTimeoutInMinutes"])
        assert limits == (2, 300, 480)
        assert item["EncryptionKey"] == {"Ref": "KeyArn"}
        assert item["Artifacts"] == {"Type": "NO_ARTIFACTS"}


def test_no_project_runs_before_its_role_may_do_anything(template):
    policies = {n for n, item in template["Resources"].items() if item["Type"] == "AWS::IAM::Policy"}
    for item in template["Resources"].values():
        if item["Type"] == "AWS::CodeBuild::Project":
            assert policies & set(item["DependsOn"])


def synthesised(folder: Path, workspace: Any) -> Path:
    app = new_app(folder)
    add_environment(app, workspace=workspace)
    app.synth()
    return folder


def test_an_environment_may_build_elsewhere(tmp_path):
    project = write_project(tmp_path / "project")
    edit(project.environment_file("kept"), "endpoints:", "builds: {enabled: false}\nendpoints:")
    folder = synthesised(tmp_path / "out", lock_everything(project, "kept"))
    assert not (folder / "tritonstack-kept-build.template.json").exists()


def test_the_embedded_cloud_has_no_builds(tmp_path):
    project = write_project(tmp_path / "project")
    edit(project.environment_file("kept"), "123456789012", "000000000000")
    folder = synthesised(tmp_path / "out", lock_everything(project, "kept"))
    assert not (folder / "tritonstack-kept-build.template.json").exists()


def test_only_files_that_builds_read_change_the_source(tmp_path):
    project = write_project(tmp_path / "project")
    locked = lock_everything(project, "kept")

    def source() -> str:
        outputs: dict[str, Any] = json.loads(
            (
                synthesised(tmp_path / str(len(list(tmp_path.iterdir()))), load_workspace(project, "kept"))
                / "tritonstack-kept-build.template.json"
            ).read_text()
        )["Outputs"]
        return str(outputs["SourceArchive"]["Value"])

    first = source()
    for name in ("README.md", "cli/main.py", ".venv/bin/python", "models/encoder/__pycache__/x.pyc"):
        file = project.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("changed")
    locked.lock.file.touch()
    assert source() == first
    (project.root / "models" / "encoder" / "notes.txt").write_text("changed")
    assert source() != first


def test_what_the_image_is_made_from_changes_its_tag(tmp_path):
    project = write_project(tmp_path / "project")
    workspace = lock_everything(project, "kept")
    before = build_stack(Assembly(workspace, synthesised(tmp_path / "1", workspace)))
    edit(project.builder_dir / "Dockerfile", "FROM", "# changed\nFROM")
    after = build_stack(Assembly(workspace, synthesised(tmp_path / "2", workspace)))
    assert before["Outputs"]["CpuImage"] != after["Outputs"]["CpuImage"]
