"""Issues that users of other tools report, if a check of the files prevents them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import NAME, write_environment
from tests.project.one_endpoint import complaints, environment, locked, only
from tritonstack.base.errors import InvalidFilesError
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.loading import load_workspace
from tritonstack.reference.drivers import chosen_ami
from tritonstack.reference.hardware import INSTANCE_TYPES
from tritonstack.reference.releases import RELEASES


def test_autoscaling_bounds_are_checked(tmp_path: Path) -> None:
    (complaint,) = complaints(tmp_path, environment("scaling: {min_instances: 4, max_instances: 2}"))
    assert complaint == (
        "endpoints.e.scaling: max_instances (2) is below min_instances (4) -- raise max_instances or lower "
        "min_instances"
    )


def test_start_and_stop_schedules_scale_to_zero_only_if_sagemaker_allows_it(
    tmp_path: Path,
) -> None:
    nights = (
        'scaling: {schedules: {night: {at: "20:00", min: 0, max: 0}, day: {at: "07:00", min: 1, max: 4}}}'
    )
    asynchronous = load_workspace(
        write_environment(tmp_path, environment(f"asynchronous: {{}}, {nights}")), NAME
    )
    assert asynchronous.spec.endpoints["e"].scaling.lowest == 0
    (complaint,) = complaints(tmp_path, environment(nights))
    assert complaint.startswith("endpoints.e.scaling.schedules.night.min: real-time endpoints")


def test_engine_mismatch_is_found_before_the_deploy(tmp_path: Path) -> None:
    on_another_gpu = locked(tmp_path, "instance_type: ml.g5.xlarge", {"sm75-25.04": {"tensorrt": "10.9.0"}})
    assert "sm75-25.04 is built for T4" in only(unbuilt(on_another_gpu, "e")).message
    of_another_version = locked(
        tmp_path, "instance_type: ml.g5.xlarge", {"sm86-25.04": {"tensorrt": "10.4.0"}}
    )
    assert "built with TensorRT 10.4.0" in only(unbuilt(of_another_version, "e")).message


def test_a_driver_mismatch_is_fixed_automatically_or_rejected(tmp_path: Path) -> None:
    assert chosen_ami(INSTANCE_TYPES["ml.g5.xlarge"], RELEASES["25.09"]) is not None
    old = "instance_type: ml.g5.xlarge, inference_ami: al2-ami-sagemaker-inference-gpu-2"
    (complaint,) = complaints(tmp_path, environment(old, triton_release="25.09"))
    assert "driver 535, too old for CUDA 13.0.1 in Triton 25.09" in complaint


def test_wrong_directory_layout_is_rejected(tmp_path: Path) -> None:
    (complaint,) = complaints(tmp_path, environment("kind: single"))
    assert "builds a pipeline of Triton models, but kind: single serves one Triton model" in complaint


@pytest.mark.parametrize("line", ["name_prefix: endpoint", "name_prefix: a--b", "name: Prod"])
def test_names_that_would_break_updates_are_rejected(tmp_path: Path, line: str) -> None:
    key, _, value = line.partition(": ")
    with pytest.raises(InvalidFilesError):
        load_workspace(write_environment(tmp_path, environment("", **{key: value})), NAME)
