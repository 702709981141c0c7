"""Compatibility of artifacts with the instances they run on: locks, engines, and payloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files.one_endpoint import coded, locked, names, only
from tritonstack.base.errors import InvalidFilesError
from tritonstack.files.checks.compatibility import (
    ASYNCHRONOUS_BYTES,
    MIB,
    REAL_TIME_BYTES,
    TRITON_INPUT_BYTES,
    unbuilt,
)
from tritonstack.files.project.build_plans import needed_artifacts


def test_missing_artifact_is_reported_with_the_incompatible_ones(tmp_path: Path) -> None:
    built: dict[str, dict[str, object]] = {"sm75-24.09": {}, "cpu-py312": {}, "sm89-25.04": {}}
    workspace = locked(tmp_path, "instance_type: ml.g5.xlarge", built)
    violation = only(unbuilt(workspace, "e"))
    assert coded(violation) == ("endpoints.e.model", "TS401")
    assert names(violation, "random.lock.yaml 'encoder' sm86-25.04 sm86-25.04-py312 A10G 8.6")
    assert names(violation, "cpu-py312 CPUs 3.12 sm75-24.09 T4 24.09 sm89-25.04 L4 L40S 25.04")
    assert "`tritonstack build random`" in str(violation.remedy)


def test_an_engine_of_another_tensorrt_is_rejected_at_the_locks_line(tmp_path: Path) -> None:
    built = {"sm86-25.04": {"tensorrt": "10.3.0.26"}}
    workspace = locked(tmp_path, "instance_type: ml.g5.xlarge", built)
    violation = only(unbuilt(workspace, "e"))
    assert coded(violation) == ("models.encoder.sm86-25.04.tensorrt", "TS402")
    assert names(violation, "abababababab 10.3.0.26 25.04 10.9.0")
    assert violation.line is not None
    assert "tensorrt: 10.3.0.26" in violation.file.read_text().splitlines()[violation.line - 1]


@pytest.mark.parametrize("tensorrt", ["10.9.0", "10.9.0.34", None])
def test_engine_of_the_releases_tensorrt_is_accepted(tmp_path: Path, tensorrt: str | None) -> None:
    built = {"sm86-25.04": {"tensorrt": tensorrt}}
    assert unbuilt(locked(tmp_path, "instance_type: ml.g5.xlarge", built), "e") == []


def test_an_engine_on_a_cpu_is_rejected(tmp_path: Path) -> None:
    violation = only(unbuilt(locked(tmp_path, "", {"cpu": {"tensorrt": "10.9.0"}}), "e"))
    assert coded(violation) == ("models.encoder.cpu.tensorrt", "TS402")
    assert names(violation, "abababababab ml.c7i.xlarge GPU")


@pytest.mark.parametrize(
    ("endpoint", "size", "release", "words"),
    [
        ("", 40 * MIB, "25.04", "40 25 asynchronous: 1,024"),
        ("asynchronous: {}", 2048 * MIB, "25.04", "2,048 1,024 bucket"),
        ("asynchronous: {}", 100 * MIB, "26.03", "100 26.03 64 --http-max-input-size=104857600"),
    ],
    ids=["real-time", "asynchronous", "the front end of Triton"],
)
def test_a_request_above_a_limit_is_rejected(
    tmp_path: Path, endpoint: str, size: int, release: str, words: str
) -> None:
    with pytest.raises(InvalidFilesError) as caught:
        locked(tmp_path, endpoint, {"cpu": {"item_bytes": size}}, triton_release=release)
    violation = only(list(caught.value.violations))
    assert coded(violation) == ("endpoints.e.model", "TS209")
    assert names(violation, f"'encoder' {words}"), violation


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
    assert coded(violation) == ("models.encoder", "TS402")
