"""Precision and TensorRT against the endpoint's instance type and Triton release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import NAME, write_environment
from tests.project.one_endpoint import environment, locked
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.project.loading import load_workspace
from tritonstack.reference.releases import RELEASES
from tritonstack.spec.models.model import ModelSpec

ONNX, TENSORRT = "{kind: text-embedding}", "{kind: text-embedding, format: tensorrt}"
GPU = "instance_type: ml.g5.xlarge"


def told(
    folder: Path, endpoint: str, model: str, *, engine: bool = False, release: str = "24.09"
) -> list[str]:
    """Return the violations of a workspace after a change of the model's file."""
    project = write_environment(folder, environment(endpoint, triton_release=release))
    file = project.model_file("encoder")
    text = file.read_text()
    if engine:
        text = text.replace(ONNX, TENSORRT)
        assert TENSORRT in text
    file.write_text(text + model)
    try:
        load_workspace(project, NAME)
    except InvalidFilesError as error:
        return [
            f"{violation.field}: {violation.message} -- {violation.remedy}" for violation in error.violations
        ]
    return []


@pytest.mark.parametrize(
    ("release", "model", "says"),
    [
        (
            "24.03",
            "precision: bf16\n",
            "Triton 24.03 has TensorRT 8.6.3, but bf16 needs 10.0",
        ),
        ("24.05", "precision: bf16\n", None),
        (
            "24.09",
            "tensorrt: {portability: same-capability}\n",
            "for a whole compute capability need 10.9",
        ),
        ("25.04", "tensorrt: {portability: same-capability}\n", None),
        ("24.03", "tensorrt: {profiles: [{}, {}]}\n", "but several profiles need 10.0"),
        ("24.05", "tensorrt: {profiles: [{}, {}]}\n", None),
        ("24.09", "tensorrt: {portability: ampere-plus}\n", None),
        (
            "24.09",
            'tensorrt: {capabilities: ["8.9"]}\n',
            "8.6, which is not in the list",
        ),
        (
            "24.09",
            "tensorrt: {version_compatible: true}\n",
            "later TensorRT versions, which Triton rejects",
        ),
    ],
)
def test_precisions_per_tensorrt_release(tmp_path: Path, release: str, model: str, says: str | None) -> None:
    violations = told(tmp_path, GPU, model, engine=True, release=release)
    assert len(violations) == (says is not None), violations
    assert says is None or says in violations[0]


def test_bf16_runs_on_cpus_in_openvino(tmp_path: Path) -> None:
    cpu = "instance_type: ml.c7i.xlarge"
    assert told(tmp_path / "a", cpu, "precision: bf16\n") == []
    (violation,) = told(tmp_path / "b", GPU, "precision: bf16\n")
    assert "'encoder' runs only on CPUs because of `precision: bf16`, but ml.g5.xlarge has a GPU" in violation
    (violation,) = told(tmp_path / "c", cpu, "precision: bf16\n", release="24.01")
    assert "OpenVINO in Triton 24.01 loads no graphs with variable dimensions" in violation
    assert "choose triton_release 24.03 or later, or another `precision`" in violation


def test_a_choice_of_bf16_is_rejected_on_older_releases(tmp_path: Path) -> None:
    built = {"cpu-py310": {"choices": {"encoder": "bf16"}}}
    assert locked(tmp_path / "new", "", built, triton_release="24.09").models
    with pytest.raises(InvalidFilesError, match=r"OpenVINO in Triton 24\.01 loads no graphs"):
        locked(tmp_path / "old", "", built, triton_release="24.01")


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ("triton: {config: config.pbtxt}", "triton.config", "a setting of its ONNX Runtime backend"),
        ("triton: {optimization: {graph_level: 1}}", "triton.optimization", "a setting of its ONNX Runtime"),
        (
            'triton: {parameters: {intra_op_thread_count: "1"}}',
            "triton.parameters.intra_op_thread_count",
            "a setting of its ONNX Runtime backend",
        ),
        ("triton: {sequences: {start: s}}", "triton.sequences", "has no sequences"),
        ("batching: {queue_delay_us: 50}", "batching.queue_delay_us", "combines no requests"),
        ("batching: {preferred_sizes: [4]}", "batching.preferred_sizes", "combines no requests"),
    ],
)
def test_settings_that_openvino_does_not_have(
    tmp_path: Path, settings: str, place: str, message: str
) -> None:
    (tmp_path / "config.pbtxt").touch()
    file = tmp_path / "model.yaml"
    text = "name: m\ndescription: D.\nsource: file://w\nrecipe: {kind: onnx}\ntest_inputs: [{random: {}}]\n"
    file.write_text(f"{text}{settings}\n")
    load_document(file, ModelSpec)
    file.write_text(f"{text}precision: bf16\n{settings}\n")
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, ModelSpec)
    (violation,) = caught.value.violations
    assert (violation.field, violation.code, violation.line) == (place, "TS114", 7)
    assert message in violation.message
    assert violation.remedy == "remove it, or choose another precision"


def test_openvino_parameters_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(
        "name: m\ndescription: D.\nsource: file://w\nrecipe: {kind: onnx}\ntest_inputs: [{random: {}}]\n"
        "precision: bf16\ntriton: {parameters: {PERFORMANCE_HINT: THROUGHPUT}}\n"
    )
    assert load_document(file, ModelSpec).record.triton.parameters == {"PERFORMANCE_HINT": "THROUGHPUT"}


def test_bf16_engines_need_ampere(tmp_path: Path) -> None:
    (violation,) = told(tmp_path / "b", "instance_type: ml.g4dn.xlarge", "precision: bf16\n", engine=True)
    assert "GPUs of compute capability 7.5 do not support bf16" in violation


def test_older_gpus_reject_artifacts_for_ampere_and_later(tmp_path: Path) -> None:
    endpoint = "instance_type: ml.g4dn.xlarge"
    (violation,) = told(tmp_path, endpoint, "tensorrt: {portability: ampere-plus}\n", engine=True)
    assert "do not run on compute capability 7.5" in violation


def test_triton_configured_to_trust_engines(tmp_path: Path) -> None:
    trusting = "--backend-config=tensorrt,version-compatible=true"
    endpoint = f'{GPU}, environment: {{SAGEMAKER_TRITON_ADDITIONAL_ARGS: "{trusting}"}}'
    assert told(tmp_path, endpoint, "tensorrt: {version_compatible: true}\n", engine=True) == []


def test_profiles_stay_within_the_largest_batch(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(
        "name: m\ndescription: D.\nsource: file://w\nrecipe: {kind: onnx, format: tensorrt}\n"
        "batching: {max_batch: 8}\ntest_inputs: [{random: {}}]\n"
        "tensorrt: {profiles: [{batch: {opt: 8, max: 8}}, {batch: {opt: 8, max: 16}}]}\n"
    )
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, ModelSpec)
    (violation,) = caught.value.violations
    assert (violation.field, violation.line) == ("tensorrt.profiles.1.batch", 7)
    assert violation.message == "profile batches go up to 16, but batching.max_batch is 8"


def test_every_release_lists_supported_formats() -> None:
    for release in RELEASES.values():
        assert release.onnx.opset >= 19
        assert len(release.tensorrt_version) == 3
