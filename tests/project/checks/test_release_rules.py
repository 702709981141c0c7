"""What an endpoint's kind and Triton release can serve, by the recipes of its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import NAME, write_environment
from tests.project.one_endpoint import environment
from tests.projects import add_image
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.constructs.endpoint.triton_model import container_environment
from tritonstack.constructs.model_data import ModelArchive
from tritonstack.project.loading import load_workspace
from tritonstack.reference.container_variables import INFERENCE_TYPE

WRITER = "recipe: {kind: vllm}\nbatching: {max_batch: 0}\ntest_inputs: [Once upon a time]\n"
COUNTER = (
    "recipe: {kind: python, decoupled: true}\ntest_inputs: [{inputs: {x: [1.0]}, responses: [{y: [1.0]}]}]\n"
)
TREES = "batching: {{max_batch: 64}}\ntest_inputs: [{{random: {{}}}}]\nrecipe: {{kind: trees, {}}}\n"
STEPS = (
    "recipe: {kind: ensemble, steps: [{model: trees}, {model: trees, inputs: {input__0: output__0}, "
    "outputs: {output__0: last}}]}\ntest_inputs: [{random: {}}]\n"
)
COUNTING = "kind: single, model: counter, instance_type: ml.m7i.large"
ON_GPU = "kind: single, model: writer, instance_type: ml.g5.xlarge, image: with-vllm"


def project(folder: Path, endpoint: str, release: str, **models: str) -> Project:
    made = write_environment(folder, environment(endpoint, triton_release=release))
    add_image(folder, "with-vllm")
    for name, text in models.items():
        file = made.model_file(name)
        file.parent.mkdir(parents=True)
        (file.parent / "model.py").touch()
        source = "source: file://weights\n" if "kind: trees" in text or "vllm" in text else ""
        file.write_text(f"name: {name}\ndescription: For tests.\n{source}{text}")
    return made


def complaints(made: Project) -> list[str]:
    with pytest.raises(InvalidFilesError) as caught:
        load_workspace(made, NAME)
    return [
        f"{violation.field}: {violation.message} -- {violation.remedy}"
        for violation in caught.value.violations
    ]


def test_language_model_on_its_own_endpoint(tmp_path: Path) -> None:
    workspace = load_workspace(project(tmp_path, ON_GPU, "25.04", writer=WRITER), NAME)
    assert workspace.models["writer"].record.generates


@pytest.mark.parametrize("options", ["", f", environment: {{{INFERENCE_TYPE}: generate_stream}}"])
def test_decoupled_python_model_on_its_own_endpoint(tmp_path: Path, options: str) -> None:
    workspace = load_workspace(project(tmp_path, COUNTING + options, "25.04", counter=COUNTER), NAME)
    spec = workspace.models["counter"].record
    assert (spec.streams, spec.generates) == (True, False)
    counter = ModelArchive("s3://models/counter/7/model.tar.gz", entry_model="counter", streams=True)
    assert container_environment(counter, {})[INFERENCE_TYPE] == "generate_stream"


@pytest.mark.parametrize(
    ("endpoint", "release", "told"),
    [
        (
            "kind: multi-model, models: [encoder, counter], instance_type: ml.m7i.large",
            "25.04",
            "'counter' streams its responses, but multi-model endpoints return one response",
        ),
        (COUNTING, "24.09", "SageMaker's front end in Triton 24.09 rejects such models"),
        (
            f"{COUNTING}, environment: {{{INFERENCE_TYPE}: generate}}",
            "25.04",
            "but 'generate' requires one response -- remove it (default: 'generate_stream')",
        ),
        (f"{COUNTING}, asynchronous: {{}}", "25.04", "but an asynchronous endpoint stores one answer"),
    ],
)
def test_endpoints_without_support_for_decoupled_models(
    tmp_path: Path, endpoint: str, release: str, told: str
) -> None:
    found = complaints(project(tmp_path, endpoint, release, counter=COUNTER))
    assert any(told in complaint for complaint in found), found


def test_container_returns_complete_answers() -> None:
    writer = ModelArchive("s3://models/writer/7/model.tar.gz", entry_model="writer", generates=True)
    assert container_environment(writer, {})[INFERENCE_TYPE] == "generate"
    own = {INFERENCE_TYPE: "generate_stream"}
    assert container_environment(writer, own)[INFERENCE_TYPE] == "generate_stream"
    plain = ModelArchive("s3://models/encoder/7/model.tar.gz", entry_model="encoder")
    assert INFERENCE_TYPE not in container_environment(plain, {})


@pytest.mark.parametrize(
    ("endpoint", "release", "told"),
    [
        (
            "kind: multi-model, models: [encoder, writer], instance_type: ml.g5.xlarge",
            "25.04",
            "endpoints.e.models.1: 'writer' streams its responses, but multi-model endpoints return "
            "one response; vLLM also requires one fixed path of its weights -- deploy it on its own "
            "endpoint (kind: "
            "single)",
        ),
        (
            ON_GPU,
            "24.09",
            "endpoints.e.model: 'writer' streams its responses, but SageMaker's front end in Triton "
            "24.09 rejects such models -- choose triton_release 25.04 or later",
        ),
        (
            f"{ON_GPU}, environment: {{{INFERENCE_TYPE}: infer}}",
            "25.04",
            f"endpoints.e.environment.{INFERENCE_TYPE}: 'writer' streams its responses, but 'infer' "
            "requires one response -- remove it (default: 'generate'), or write 'generate_stream'",
        ),
        (
            "kind: ensemble, instance_type: ml.g5.xlarge, challenger: {model: writer, share: 0.1}",
            "24.09",
            "endpoints.e.challenger.model: 'writer' streams its responses, but SageMaker's front end in "
            "Triton 24.09 rejects such models -- choose triton_release 25.04 or later",
        ),
    ],
)
def test_endpoints_without_language_model_support(
    tmp_path: Path, endpoint: str, release: str, told: str
) -> None:
    assert told in complaints(project(tmp_path, endpoint, release, writer=WRITER))


@pytest.mark.parametrize("options", ["file: fraud.json", "file: fraud.ubj, library: xgboost", "file: a.tl"])
def test_trees_unsupported_by_older_releases(tmp_path: Path, options: str) -> None:
    endpoint = "kind: single, model: trees"
    assert complaints(project(tmp_path, endpoint, "24.01", trees=TREES.format(options))) == [
        "endpoints.e.model: FIL in Triton 24.01 cannot read treelite 4 checkpoints, the format of "
        "'trees' -- choose triton_release 24.03 or later; LightGBM models can instead set "
        "`library: lightgbm` in recipe"
    ]
    load_workspace(project(tmp_path / "newer", endpoint, "24.03", trees=TREES.format(options)), NAME)


@pytest.mark.parametrize("options", ["file: fraud.txt", "file: fraud.model, library: lightgbm"])
def test_text_of_lightgbm_is_read_by_all(tmp_path: Path, options: str) -> None:
    endpoint = "kind: single, model: trees"
    load_workspace(project(tmp_path, endpoint, "24.01", trees=TREES.format(options)), NAME)


def test_trees_in_a_pipeline_are_counted(tmp_path: Path) -> None:
    made = project(
        tmp_path, "kind: ensemble, model: both", "24.01", trees=TREES.format("file: a.json"), both=STEPS
    )
    assert any("the format of 'trees'" in complaint for complaint in complaints(made))


DOUBLE = "recipe: {kind: python}\ntest_inputs: [{inputs: {x: [1.0]}, outputs: {y: [2.0]}}]\n"
CALLER = DOUBLE.replace("python", "python, calls: [double]")
TWICE = (
    "recipe: {kind: ensemble, steps: [{model: double, outputs: {y: z}}, {model: double, inputs: {x: z}}]}\n"
    "test_inputs: [{inputs: {x: [1.0]}, outputs: {y: [4.0]}}]\n"
)


@pytest.mark.parametrize(
    ("endpoint", "remedy"),
    [
        ("kind: single, model: caller", "write `kind: ensemble`, or remove `recipe.calls` in "),
        ("kind: single, model: twice", "write `kind: ensemble`"),
        ("kind: ensemble, model: double", "write `kind: single`"),
        ("kind: single, model: encoder", "write `kind: ensemble`, or change `recipe.input` in "),
    ],
)
def test_a_wrong_kind_names_what_the_model_can_change(tmp_path: Path, endpoint: str, remedy: str) -> None:
    made = project(tmp_path, endpoint, "25.04", double=DOUBLE, caller=CALLER, twice=TWICE)
    (complaint,) = complaints(made)
    found = complaint.partition(" -- ")[2]
    assert found.startswith(remedy)
    assert found == remedy or found.endswith("model.yaml")
