"""Errors that `validate` finds in the files alone, before anything is fetched, hashed, or built."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environments import NAME, write_environment
from tests.project.one_endpoint import environment
from tests.projects import add_image
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.project import loading
from tritonstack.project.loading import ProjectFiles, load_workspace
from tritonstack.project.validation import validate_project
from tritonstack.reference.releases import RELEASES

ONNX = "source: file://w\nrecipe: {kind: onnx}\ntest_inputs: [{random: {}}]\n"
VLLM = "source: file://w\nrecipe: {kind: vllm}\nbatching: {max_batch: 0}\ntest_inputs: [a text]\n"
PYTHON = (
    "recipe: {{kind: python, requirements: requirements.txt{}}}\n"
    "test_inputs: [{{inputs: {{x: [1.0]}}, outputs: {{y: [2.0]}}}}]\n"
)
CPU, GPU = "instance_type: ml.c7i.xlarge", "instance_type: ml.g5.xlarge"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"


def project(
    folder: Path, model: str, endpoint: str, requirements: str = "six==1.17.0\n", **more: Any
) -> Project:
    made = write_environment(folder, environment(f"kind: single, model: mine, {endpoint}", **more))
    add_image(folder, "with-vllm")
    file = made.model_file("mine")
    (file.parent / "w").mkdir(parents=True)
    (file.parent / "model.py").write_text(CODE)
    (file.parent / "requirements.txt").write_text(requirements)
    file.write_text(f"name: mine\ndescription: For tests.\n{model}")
    return made


def violations_of(made: Project) -> list[str]:
    """Return file, line, field, message, and remedy of every violation."""
    try:
        load_workspace(made, NAME)
    except InvalidFilesError as error:
        return [
            f"{one.file.name}:{one.line}: {one.field}: {one.message} -- {one.remedy}"
            for one in error.violations
        ]
    return []


@pytest.mark.parametrize(
    ("model", "endpoint", "told"),
    [
        (
            ONNX + "precision: fp16\n",
            CPU,
            "runs only on GPUs because of `precision: fp16`, but ml.c7i.xlarge has no GPU",
        ),
        (
            ONNX + "precision: int8\n",
            GPU,
            "runs only on CPUs because of `precision: int8`, but ml.g5.xlarge has a",
        ),
        (
            ONNX + "precision: auto\n",
            GPU,
            "runs only on CPUs because of `precision: auto`, but ml.g5.xlarge has a",
        ),
        (
            ONNX.replace("onnx}", "onnx, format: tensorrt}"),
            CPU,
            "runs only on GPUs because of `format: tensorrt`",
        ),
        (VLLM, CPU, "runs only on GPUs because of `kind: vllm`"),
    ],
)
def test_precision_unsupported_by_the_hardware(tmp_path: Path, model: str, endpoint: str, told: str) -> None:
    (found,) = [text for text in violations_of(project(tmp_path, model, endpoint)) if "runs only on" in text]
    assert found.startswith(f"{NAME}.yaml:")
    assert f"endpoints.e.model: 'mine' {told}" in found
    assert "-- choose an instance type with" in found
    assert "or change " in found
    assert violations_of(project(tmp_path / "plain", ONNX, endpoint)) == []


def test_pipeline_steps_affect_the_build_machine(tmp_path: Path) -> None:
    made = project(tmp_path, ONNX + "precision: fp16\n", CPU)
    steps = "{model: mine}, {model: mine, inputs: {x: y}, outputs: {y: z}}"
    file = made.model_file("whole")
    file.parent.mkdir()
    file.write_text(
        f"name: whole\ndescription: Steps.\nrecipe: {{kind: ensemble, steps: [{steps}]}}\n"
        "test_inputs: [{random: {}}]\n"
    )
    text = made.environment_file(NAME).read_text()
    made.environment_file(NAME).write_text(text.replace("single", "ensemble").replace("mine", "whole"))
    assert any("'mine', a member of 'whole', runs only on GPUs" in found for found in violations_of(made))


def test_a_language_model_needs_an_image_with_vllm(tmp_path: Path) -> None:
    (found,) = violations_of(project(tmp_path, VLLM, GPU, triton_release="26.05"))
    assert "'mine' requires Triton's vLLM backend, which SageMaker's images do not have" in found
    assert "-- write `image: <folder of containers/>`" in found
    assert "tritonserver:26.05-vllm-python-py3" in found
    assert (
        violations_of(project(tmp_path / "own", VLLM, f"{GPU}, image: with-vllm", triton_release="26.05"))
        == []
    )


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.name)
def test_packages_for_another_python_than_the_releases(tmp_path: Path, release: Any) -> None:
    other = "3.12" if release.python == "3.10" else "3.10"
    made = project(tmp_path, PYTHON.format(f', pythons: ["{other}"]'), CPU, triton_release=release.name)
    (found,) = violations_of(made)
    assert found == (
        f"model.yaml:3: recipe.pythons: the packages are for Python {other}, but Triton {release.name} runs "
        f"Python {release.python} in environment '{NAME}' -- add \"{release.python}\""
    )
    both = PYTHON.format(f', pythons: ["{other}", "{release.python}"]')
    assert violations_of(project(tmp_path / "both", both, CPU, triton_release=release.name)) == []


def test_the_embedded_cloud_serves_with_the_python_of_this_machine(tmp_path: Path) -> None:
    account = "000000000000"
    made = project(tmp_path, PYTHON.format(', pythons: ["3.10"]'), CPU, account=account)
    (found,) = violations_of(made)
    assert f"the local cloud's local server runs Python {HERE}" in found
    own = project(tmp_path / "own", PYTHON.format(f', pythons: ["{HERE}"]'), CPU, account=account)
    spec = load_workspace(own, NAME).spec
    assert spec.python == HERE
    instance = spec.endpoints["e"].variants[0].instance
    assert spec.acceptable_targets(instance) == (f"cpu-py{HERE.replace('.', '')}", "cpu")


def test_pythons_without_requirements(tmp_path: Path) -> None:
    model = PYTHON.format(', pythons: ["3.12"]').replace("requirements: requirements.txt, ", "")
    (found,) = violations_of(project(tmp_path, model, CPU))
    assert "`pythons` applies only to `requirements`, which is missing" in found


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        ("six", False),
        ("six>=1.17", False),
        ("six==1.*", False),
        ("six==1.17,<2", False),
        ("-r others.txt", False),
        ("six @ https://example.com/six.whl", False),
        ("six==1.17.0", True),
        ('six[all] == 1.17.0 ; python_version < "3.12"', True),
        ("torch==2.13.0+cpu", True),
        (f"six===1.17.0 \\\n    --hash=sha256:{'0' * 64}", True),
    ],
)
def test_requirements_without_exact_versions(tmp_path: Path, line: str, exact: bool) -> None:
    made = project(tmp_path, PYTHON.format(""), CPU, f"# pinned\ntqdm==4.67.1\n\n{line}\n")
    found = violations_of(made)
    assert bool(found) != exact
    if found:
        assert found[0].startswith(f"requirements.txt:4: : '{line}' has no exact version -- write <name>==")
        assert any(
            "has no exact version" in violation.message for violation in validate_project(ProjectFiles(made))
        )


@pytest.mark.parametrize(("release", "fails"), [("24.09", True), ("25.04", False)])
def test_numpy_2_with_a_backend_for_numpy_1(tmp_path: Path, release: str, fails: bool) -> None:
    requirements = "six==1.17.0\nnumpy==2.4.6\n"
    found = violations_of(project(tmp_path, PYTHON.format(""), CPU, requirements, triton_release=release))
    assert bool(found) == fails
    if found:
        assert found[0].startswith(
            "requirements.txt:2: : the Python backend of the image (Triton 24.09) requires NumPy 1, got 2.4"
        )
    one = project(tmp_path / "one", PYTHON.format(""), CPU, "numpy==1.26.4\n", triton_release=release)
    assert violations_of(one) == []


def header(entries: dict[str, Any]) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"cut",
        (1 << 60).to_bytes(8, "little"),
        header({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}) + bytes(8),
        header({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}) + bytes(24),
        (3).to_bytes(8, "little") + b"{]}",
    ],
)
def test_incomplete_weights_are_rejected_before_they_are_hashed(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashed(*_: object) -> str:
        raise AssertionError("hashed before it was checked")

    monkeypatch.setattr(loading, "file_digests", hashed)
    made = project(tmp_path, ONNX.replace("kind: onnx", "kind: feature-extraction, input: tokens"), CPU)
    made.model_file("mine").write_text(made.model_file("mine").read_text().replace("{random: {}}", "a text"))
    (made.model_file("mine").parent / "w" / "model.safetensors").write_bytes(content)
    (found,) = violations_of(made)
    assert found.startswith("model.yaml:3: source: ")
    assert "model.safetensors" in found
    assert "-- download or copy the file again" in found
