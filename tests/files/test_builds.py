"""Where models are built: it follows from the endpoint's instance type; impossible builds are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import botocore.session
import pytest
import yaml

from tests.environments import NAME, write_environment
from tests.files.one_endpoint import complaints, environment
from tests.projects import edit
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.facts.hardware import INSTANCE_TYPES
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.environment.builds import runs_processing_jobs
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.build_machines import (
    BuildMachine,
    CodeBuildMachine,
    ComputeType,
    ManualBuild,
    ProcessingMachine,
    build_machine_for,
)
from tritonstack.files.project.build_plans import needed_artifacts
from tritonstack.files.project.quotas import needed_quotas
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact, Promoted, RolledBack

FLEET = "arn:aws:codebuild:eu-west-1:111111111111:fleet/gpus:0a1b2c3d-0000-4000-8000-0a1b2c3d4e5f"
PROJECT = "tritonstack-dev-build"


def spec_of(builds: str = "", *, region: str = "eu-west-1", account: str = "1" * 12, release: str = "24.09"):
    return EnvironmentSpec.model_validate(
        {
            "name": "dev",
            "account": account,
            "region": region,
            "triton_release": release,
            "builds": yaml.safe_load(f"{{{builds}}}"),
            "endpoints": {},
        },
        strict=False,
    )


def cpu(size: str) -> CodeBuildMachine:
    return CodeBuildMachine("cpu", f"{PROJECT}-cpu", f"BUILD_GENERAL1_{size}")


def gpu(hardware: str, size: str, fleet: str | None = None) -> CodeBuildMachine:
    return CodeBuildMachine(hardware, f"{PROJECT}-{hardware}", f"BUILD_GENERAL1_{size}", fleet)


VENUES: list[tuple[str, EnvironmentSpec, BuildMachine | None]] = [
    ("c7i.xlarge", spec_of(), cpu("LARGE")),
    ("c7i.xlarge", spec_of("cpu_size: 2xlarge"), cpu("2XLARGE")),
    ("g5.xlarge", spec_of(), gpu("sm86", "SMALL")),
    ("g5.48xlarge", spec_of(), gpu("sm86", "SMALL")),
    ("g5.4xlarge", spec_of(region="ca-central-1"), ProcessingMachine("sm86", "ml.g5.4xlarge")),
    ("p3.2xlarge", spec_of(), gpu("sm70", "LARGE")),
    ("g4dn.xlarge", spec_of(), ProcessingMachine("sm75", "ml.g4dn.xlarge")),
    ("g6.2xlarge", spec_of(), ProcessingMachine("sm89", "ml.g6.2xlarge")),
    ("g6e.xlarge", spec_of(region="us-east-1"), ProcessingMachine("sm89", "ml.g6e.xlarge")),
    ("g7e.2xlarge", spec_of(region="us-east-1"), ProcessingMachine("sm120", "ml.g7e.2xlarge")),
    ("p5.48xlarge", spec_of(region="us-east-1"), ProcessingMachine("sm90", "ml.p5.4xlarge")),
    ("p5en.48xlarge", spec_of(region="us-east-1"), ProcessingMachine("sm90", "ml.p5.4xlarge")),
    ("p5en.48xlarge", spec_of(region="eu-north-1"), None),
    ("p4d.24xlarge", spec_of(), None),
    ("p6-b200.48xlarge", spec_of(region="us-east-1"), None),
    ("p4d.24xlarge", spec_of("machines: {sm80: {by_hand: true}}"), ManualBuild("sm80")),
    ("p4d.24xlarge", spec_of(f"machines: {{sm80: {{fleet: '{FLEET}'}}}}"), gpu("sm80", "LARGE", FLEET)),
    (
        "g6.xlarge",
        spec_of("machines: {sm89: {instance_type: ml.g6.8xlarge}}"),
        ProcessingMachine("sm89", "ml.g6.8xlarge"),
    ),
    ("g5.xlarge", spec_of("machines: {sm89: {by_hand: true}}"), gpu("sm86", "SMALL")),
    ("p4d.24xlarge", spec_of("enabled: false"), ManualBuild("sm80")),
    ("g5.xlarge", spec_of(account="0" * 12), ManualBuild("sm86")),
]


@pytest.mark.parametrize(("instance", "spec", "build_machine"), VENUES)
def test_build_machine_per_instance_type(
    instance: str, spec: EnvironmentSpec, build_machine: BuildMachine | None
) -> None:
    assert build_machine_for(spec, INSTANCE_TYPES[f"ml.{instance}"]) == build_machine


def test_model_without_gpu_targets_needs_no_gpu(tmp_path: Path) -> None:
    """The only error is that it is not built for such instances."""
    data = environment("instance_type: ml.p4d.24xlarge")
    project = write_environment(tmp_path, data)
    with project.model_file("encoder").open("a") as stream:
        stream.write("precision: int8\n")
    assert complaints(tmp_path, data) == [("endpoints.e.model", "TS119")]


def test_quotas_of_build_machines(tmp_path: Path) -> None:
    data = environment(
        "instance_type: ml.g5.xlarge, challenger: {model: encoder-two}", builds={"concurrent": 8}
    )
    data["endpoints"]["f"] = {"kind": "ensemble", "model": "encoder", "instance_type": "ml.g6.xlarge"}
    spec = load_workspace(write_environment(tmp_path, data), NAME).spec
    needed = {quota.name: (quota.service, quota.value) for quota in needed_quotas(spec)}
    assert needed["Concurrently running builds for Linux GPU Small environment"] == ("codebuild", 2)
    assert needed["ml.g6.xlarge for processing job usage"] == ("sagemaker", 1)
    assert needed["Concurrently running builds for Linux/Large environment"] == ("codebuild", 1)


@pytest.mark.parametrize(("size", "name"), [("medium", "Medium"), ("2xlarge", "2XLarge")])
def test_quotas_of_builds_without_a_gpu(tmp_path: Path, size: str, name: str) -> None:
    data = environment("challenger: {model: encoder-two}", builds={"cpu_size": size})
    spec = load_workspace(write_environment(tmp_path, data), NAME).spec
    needed = {quota.name: quota for quota in needed_quotas(spec)}
    quota = needed[f"Concurrently running builds for Linux/{name} environment"]
    assert (quota.service, quota.value) == ("codebuild", 2)
    assert "encoder, encoder-two" in quota.reasons[0]
    # Images are built on a machine of their own size.
    assert "Concurrently running builds for Linux/Large environment" in needed


def lock_current(project: Project, **changes: object) -> None:
    workspace = load_workspace(project, "dev")
    entry = LockedArtifact(
        digest="ab" * 32,
        spec_hash=workspace.hashes["minilm"],
        archive_bytes=1,
        unpacked_bytes=1,
        built_from=workspace.model_hashes["minilm"].parts,
    )
    write_lock(project.lock_file("dev"), Lock(models={"minilm": {"cpu": entry.model_copy(update=changes)}}))


def reason(project: Project) -> str:
    (needed,) = needed_artifacts(load_workspace(project, "dev"))
    return needed.reason


def test_reasons_for_a_build(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(project).endswith("for cpu")
    lock_current(project)
    assert reason(project) == ""
    (project.model_file("minilm").parent / "weights").mkdir(exist_ok=True)
    (project.model_file("minilm").parent / "weights" / "w.txt").write_bytes(b"x")
    assert "beside model.yaml" in reason(project)
    lock_current(project)
    monkeypatch.setattr("tritonstack.files.sources.model_hashes.BUILDER_VERSION", 99)
    assert "tooling" in reason(project)


def test_an_artifact_for_other_machines_does_not_count(project: Project) -> None:
    lock_current(project)
    edit(project.environment_file("dev"), "ml.c7i.xlarge", "ml.g5.xlarge")
    assert reason(project).endswith("for sm86-25.04")


def test_model_on_two_sizes_of_an_instance_family_is_built_once(project: Project) -> None:
    with project.environment_file("dev").open("a") as stream:
        stream.write("  again: {kind: ensemble, model: minilm, instance_type: ml.m7i.large}\n")
        stream.write("  fast: {kind: ensemble, model: minilm, instance_type: ml.g5.xlarge}\n")
    needed = needed_artifacts(load_workspace(project, "dev"))
    assert [item.target for item in needed] == ["cpu", "sm86-25.04"]


def test_models_that_the_environment_does_not_serve_are_rejected(project: Project) -> None:
    with pytest.raises(UsageError) as caught:
        needed_artifacts(load_workspace(project, "dev"), ["minilmm"])
    assert (caught.value.code, "'minilm'?" in str(caught.value.remedy)) == ("TS903", True)


def test_processing_instance_types_are_known_to_the_sdk() -> None:
    known = botocore.session.get_session().get_service_model("sagemaker").shape_for("ProcessingInstanceType")
    ours = {name for name, instance in INSTANCE_TYPES.items() if runs_processing_jobs(instance)}
    # What our table has; the SDK's also has families that no Triton image runs on.
    assert ours == {name for name in known.enum if name in INSTANCE_TYPES and INSTANCE_TYPES[name].gpus}


def test_machine_sizes_and_types_match_codebuild() -> None:
    model = botocore.session.get_session().get_service_model("codebuild")
    assert set(get_args(ComputeType)) <= set(model.shape_for("ComputeType").enum)
    assert {"LINUX_CONTAINER", "LINUX_GPU_CONTAINER"} <= set(model.shape_for("EnvironmentType").enum)


def test_a_rollback_is_kept_by_builds_until_its_model_changes(project: Project) -> None:
    now = load_workspace(project, "dev").hashes["minilm"]
    back = RolledBack(instead_of="cd" * 32, as_of=now, by="ann", at="2026-11-24T08:30:00Z")
    lock_current(project, spec_hash="77" * 32, rolled_back=back)
    workspace = load_workspace(project, "dev")
    assert reason(project) == ""
    assert unbuilt(workspace) == []
    (named,) = needed_artifacts(workspace, ["minilm"])
    assert named.reason
    edit(project.model_file("minilm"), "A man is eating food.", "Another text.")
    assert reason(project)
    assert unbuilt(load_workspace(project, "dev"))


def test_promoted_entry_is_deployable_and_not_rebuilt_after_a_model_change(project: Project) -> None:
    promoted = Promoted(source="test", by="ann", at="2026-11-24T08:30:00Z")
    lock_current(project, spec_hash="77" * 32, promoted=promoted)
    workspace = load_workspace(project, "dev")
    assert unbuilt(workspace) == []
    assert reason(project) == ""
    (named,) = needed_artifacts(workspace, ["minilm"])
    assert named.reason
