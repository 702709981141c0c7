"""Warnings about environments that no rule rejects: copies without room, host images, and networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import NAME, write_environment
from tests.files.one_endpoint import environment
from tests.projects import MODEL
from tritonstack.base.error_kinds import ChangedSourceError
from tritonstack.base.yaml import load_document
from tritonstack.files.checks.notes import environment_warnings, source_warnings
from tritonstack.files.loading import load_workspace
from tritonstack.files.model.model import ModelSpec


def warned(folder: Path, endpoint: str, **changes: object) -> set[tuple[str | None, str | None]]:
    """Return the codes and fields of the warnings."""
    project = write_environment(folder, environment(endpoint, **changes))
    found = environment_warnings(load_workspace(project, NAME).environment)
    assert all(item.line and item.remedy for item in found)
    return {(item.code, item.field) for item in found}


@pytest.mark.parametrize(
    ("memory_mb", "copies", "instances", "warns"),
    [
        (6000, 1, 1, True),  # an ml.c5.xlarge has 8 GiB: one copy fits
        (6000, 1, 2, False),
        (3000, 1, 1, False),  # two fit
        (3000, 2, 1, True),
        (3000, 2, 2, False),
    ],
)
def test_an_update_of_a_component_needs_room_for_one_more_copy(
    tmp_path: Path, memory_mb: int, copies: int, instances: int, warns: bool
) -> None:
    endpoint = (
        f"instance_type: ml.c5.xlarge, components: {{memory_mb: {memory_mb}, min_copies: {copies}, "
        f"max_copies: {copies}}}, scaling: {{min_instances: 1, max_instances: {instances}}}"
    )
    found = warned(tmp_path, endpoint, region="us-east-1")
    assert found == ({("TS119", "endpoints.e.scaling.max_instances")} if warns else set())


GPU_4 = "al2023-ami-sagemaker-inference-gpu-4-1"
GPU_2 = "al2-ami-sagemaker-inference-gpu-2-1"


@pytest.mark.parametrize(
    ("release", "instance", "ami", "field"),
    [
        ("25.04", "ml.g5.xlarge", None, None),  # SageMaker's default, with a documented driver
        ("25.04", "ml.g5.xlarge", GPU_2, None),
        ("25.04", "ml.g5.xlarge", GPU_4, "inference_ami"),  # CUDA 12 on the newest image
        ("25.04", "ml.g7e.2xlarge", None, "instance_type"),  # chosen automatically
        ("26.05", "ml.g5.xlarge", None, None),  # CUDA 13 needs the newest image
        ("26.05", "ml.g5.xlarge", GPU_4, None),
        ("26.05", "ml.g7.2xlarge", None, "instance_type"),  # another driver on EKS
    ],
)
def test_a_pair_of_host_image_and_release_that_nobody_documents_is_not_guaranteed(
    tmp_path: Path, release: str, instance: str, ami: str | None, field: str | None
) -> None:
    endpoint = f"instance_type: {instance}" + (f", inference_ami: {ami}" if ami else "")
    prices = {instance: 1}
    found = warned(tmp_path, endpoint, triton_release=release, region="us-east-1", prices=prices)
    assert found == ({("TS119", f"endpoints.e.{field}")} if field else set())


EXISTING = {
    "vpc_id": "vpc-1234567a",
    "subnet_ids": ["subnet-1234567a", "subnet-1234567b"],
    "security_group_ids": ["sg-1234567a"],
}


@pytest.mark.parametrize(
    ("network", "isolated", "warns"),
    [
        ({"create": {}}, "false", True),
        ({"create": {}}, "true", False),
        ({"existing": EXISTING}, "false", False),
        (None, "false", False),
    ],
)
def test_containers_in_a_created_network_reach_no_other_service(
    tmp_path: Path, network: object, isolated: str, warns: bool
) -> None:
    endpoint = f"instance_type: ml.c5.xlarge, network_isolation: {isolated}"
    changes = {} if network is None else {"network": network}
    found = warned(tmp_path, endpoint, region="us-east-1", **changes)
    assert found == ({("TS114", "endpoints.e.network_isolation")} if warns else set())


@pytest.mark.parametrize(
    ("source", "warns"),
    [("hf://a/b@0a1b2c3d", True), (f"hf://a/b@{'0a1b2c3d' * 5}", False), ("file://weights", False)],
)
def test_a_source_that_can_move_is_a_warning(tmp_path: Path, source: str, warns: bool) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(MODEL.replace("file://weights", source))
    found = source_warnings(load_document(file, ModelSpec))
    assert [(item.code, item.field) for item in found] == [(ChangedSourceError.code, "source")] * warns
