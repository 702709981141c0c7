"""Compatibility of artifacts with the instances they run on: locks, engines, and payloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.one_endpoint import locked, only
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.project.build_plans import needed_artifacts
from tritonstack.project.checks.compatibility import (
    ASYNCHRONOUS_BYTES,
    MIB,
    REAL_TIME_BYTES,
    TRITON_INPUT_BYTES,
    unbuilt,
)


def test_missing_artifact_is_reported_with_the_incompatible_ones(tmp_path: Path) -> None:
    built: dict[str, dict[str, object]] = {"sm75-24.09": {}, "cpu-py312": {}, "sm89-25.04": {}}
    workspace = locked(tmp_path, "instance_type: ml.g5.xlarge", built)
    violation = only(unbuilt(workspace, "e"))
    assert violation.field == "endpoints.e.model"
    assert violation.message == (
        "random.lock.yaml has no artifact of 'encoder' for sm86-25.04 or sm86-25.04-py312 (cpu-py312 is "
        "built for CPUs with Python 3.12; sm75-24.09 is built for T4 under Triton 24.09; sm89-25.04 is built "
        "for L4 or L40S under Triton 25.04; ml.g5.xlarge has A10G, compute capability 8.6)"
    )
    assert violation.remedy == "run `tritonstack build random` and commit random.lock.yaml"


def test_missing_artifact_that_a_build_creates(tmp_path: Path) -> None:
    violation = only(unbuilt(locked(tmp_path, "", {}), "e"))
    assert violation.remedy == "run `tritonstack build random` and commit random.lock.yaml"


def test_an_engine_of_another_tensorrt_is_rejected_at_the_locks_line(tmp_path: Path) -> None:
    built = {"sm86-25.04": {"tensorrt": "10.3.0.26"}}
    workspace = locked(tmp_path, "instance_type: ml.g5.xlarge", built)
    violation = only(unbuilt(workspace, "e"))
    assert violation.field == "models.encoder.sm86-25.04.tensorrt"
    assert violation.message == (
        "the engines of abababababab were built with TensorRT 10.3.0.26, but Triton 25.04 has 10.9.0, "
        "which cannot run them"
    )
    assert violation.line is not None
    assert "tensorrt: 10.3.0.26" in violation.file.read_text().splitlines()[violation.line - 1]


@pytest.mark.parametrize("tensorrt", ["10.9.0", "10.9.0.34", None])
def test_engine_of_the_releases_tensorrt_is_accepted(tmp_path: Path, tensorrt: str | None) -> None:
    built = {"sm86-25.04": {"tensorrt": tensorrt}}
    assert unbuilt(locked(tmp_path, "instance_type: ml.g5.xlarge", built), "e") == []


def test_an_engine_on_a_cpu_is_rejected(tmp_path: Path) -> None:
    violation = only(unbuilt(locked(tmp_path, "", {"cpu": {"tensorrt": "10.9.0"}}), "e"))
    assert violation.message == "abababababab contains TensorRT engines, but ml.c7i.xlarge has no GPU"


def payload_violation(folder: Path, endpoint: str, size: int, release: str = "25.04") -> FileViolation:
    with pytest.raises(InvalidFilesError) as caught:
        locked(folder, endpoint, {"cpu": {"item_bytes": size}}, triton_release=release)
    return only(list(caught.value.violations))


def test_request_too_large_for_real_time_needs_asynchronous_inference(tmp_path: Path) -> None:
    violation = payload_violation(tmp_path, "", 40 * MIB)
    assert violation.field == "endpoints.e.model"
    assert violation.message == (
        "one request or response of 'encoder' has 40 MiB, but SageMaker accepts at most 25 MiB in real time"
    )
    assert violation.remedy == "add `asynchronous: {}`, which accepts 1,024 MiB"


def test_request_too_large_for_asynchronous_inference_is_rejected(tmp_path: Path) -> None:
    violation = payload_violation(tmp_path, "asynchronous: {}", 2048 * MIB)
    assert violation.message == (
        "one request or response of 'encoder' has 2,048 MiB, but SageMaker accepts at most 1,024 MiB"
    )
    assert (
        violation.remedy
        == "pass object names in requests, and let the model read the objects from its bucket"
    )


def test_triton_limit_applies_if_the_front_end_keeps_it(tmp_path: Path) -> None:
    violation = payload_violation(tmp_path, "asynchronous: {}", 100 * MIB, "26.03")
    assert violation.message == (
        "one request or response of 'encoder' has 100 MiB, but Triton 26.03 accepts at most 64 MiB"
    )
    assert violation.remedy == (
        'add `SAGEMAKER_TRITON_ADDITIONAL_ARGS: "--http-max-input-size=104857600"` to environment'
    )


@pytest.mark.parametrize(
    ("endpoint", "size", "release"),
    [
        ("", REAL_TIME_BYTES, "25.04"),
        ("asynchronous: {}", ASYNCHRONOUS_BYTES, "25.09"),
        ("asynchronous: {}", TRITON_INPUT_BYTES, "26.03"),
        (
            "asynchronous: {}, environment: "
            "{SAGEMAKER_TRITON_ADDITIONAL_ARGS: --http-max-input-size=104857600}",
            100 * MIB,
            "26.03",
        ),
    ],
)
def test_largest_allowed_request_is_accepted(tmp_path: Path, endpoint: str, size: int, release: str) -> None:
    locked(tmp_path, endpoint, {"cpu": {"item_bytes": size}}, triton_release=release)


@pytest.mark.parametrize(("part", "is_rejected"), [("builder", False), ("spec", True), ("files", True)])
def test_a_new_version_of_the_tool_keeps_artifacts_deployable(
    tmp_path: Path, part: str, is_rejected: bool
) -> None:
    parts = locked(tmp_path / "now", "", {"cpu": {}}).model_hashes["encoder"].parts
    before = {"spec_hash": "00" * 32, "built_from": {**parts, part: "0123456789ab"}}
    workspace = locked(tmp_path / "then", "", {"cpu": before})
    assert bool(unbuilt(workspace, "e")) is is_rejected
    (needed,) = needed_artifacts(workspace)
    assert ("tooling" in needed.reason) is not is_rejected


def test_an_old_artifact_does_not_prove_request_sizes(tmp_path: Path) -> None:
    stale = {"cpu": {"item_bytes": 40 * MIB, "spec_hash": "00" * 32}}
    violation = only(unbuilt(locked(tmp_path, "", stale), "e"))
    assert "was built from another version of" in violation.message
