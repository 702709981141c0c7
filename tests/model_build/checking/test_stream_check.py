"""Decoupled models: a real Triton streams every response, and each failure has its own error."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.build import build_model
from model_build.checking.archive_checks import StreamCheck
from model_build.data import Case
from model_build.errors import ParityError, ServingError
from model_build.store.archive import pack
from tests.model_build.supplied_models import write_supplied
from tests.model_build.written_repositories import contents, error_of, tensors, violation_of, write_repository
from tritonstack.base.paths import find_project
from tritonstack.base.yaml import Document
from tritonstack.client.streaming import flat_inputs
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.examples import parse_examples
from tritonstack.triton import find_installation

COUNTING = """\
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            sender = request.get_response_sender()
            for number in range(int(x.ravel()[0])):
                word = np.array([[f"näch {number}".encode()]], dtype=np.object_)
                y = pb_utils.Tensor("y", (x + number).astype(np.float32))
                sender.send(pb_utils.InferenceResponse([y, pb_utils.Tensor("word", word)]))
            if x.ravel()[-1] == 99:
                error = pb_utils.TritonError("out of ink")
                sender.send(pb_utils.InferenceResponse(error=error), flags=FINAL)
            elif x.ravel()[-1] != 98:
                sender.send(flags=FINAL)
"""
RIGHT = """\
def right(request):
    x = request["x"]
    for number in range(int(x[0, 0])):
        yield {"y": x + number, "word": [[f"näch {number}"]]}
"""
COUNTING_MODEL = """\
name: counting
description: Counts.
recipe: {kind: python, decoupled: true, reference: right.py:right}
test_inputs:
  - inputs: {x: [2.0, 0.5]}
  - inputs: {x: [3.0]}
"""
TEST_INPUTS = [
    {
        "inputs": {"x": [2.0, 0.5]},
        "responses": [{"y": [2.0, 0.5], "word": ["näch 0"]}, {"y": [3.0, 1.5], "word": ["näch 1"]}],
    },
    {"inputs": {"x": [1.0]}, "responses": [{"y": [1.0], "word": ["näch 0"]}]},
]


def write_counting_model(folder: Path) -> None:
    """Write a decoupled model as a model of a project."""
    folder.mkdir(parents=True)
    for name, text in {"model.yaml": COUNTING_MODEL, "model.py": COUNTING, "right.py": RIGHT}.items():
        (folder / name).write_text(text)


def counting(folder: Path, files: Mapping[str, str] | None = None, **more: Any) -> Document[ModelSpec]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"model.py": COUNTING, "right.py": RIGHT, **(files or {})}.items():
        (folder / name).write_text(text)
    recipe = {"kind": "python", "decoupled": True, **more.pop("recipe", {})}
    return write_supplied(folder, recipe, **{"source": None, "test_inputs": TEST_INPUTS, **more})


def case(*x: float, right: int) -> Case:
    """A request that should get `right` responses."""
    request = np.array([x], np.float32)
    word = np.array([["näch 0"]], np.object_)
    responses = [{"y": request + number, "word": word} for number in range(right)]
    return Case("one", {"x": request}, {}, responses=responses)


def check(folder: Path, *cases: Case, within_s: float = 20.0) -> None:
    repository = write_repository(counting(folder / "model"), folder / "work")
    StreamCheck(
        installation=find_installation(home=find_project(Path(__file__)).server_dir),
        packed=pack(repository.folder, folder / "model.tar.gz"),
        entry="tiny",
        cases=cases,
        work=folder / "serving",
        within_s=within_s,
    ).run()


@pytest.mark.e2e
def test_a_decoupled_model_end_to_end(tmp_path, folders):
    artifact = build_model(model=counting(tmp_path / "model"), folders=folders)
    (parity,) = artifact.manifest.parity
    assert (parity.stage, parity.cases, parity.max_absolute_error) == ("served", 18, 0.0)
    ((batch, requests),) = [(report.batch, report.requests) for report in artifact.manifest.latency]
    assert (batch, 3 <= requests <= 50) == (1, True), "fewer on a busy machine"
    file = artifact.artifact_dir / "examples.json"
    small, large = parse_examples(file.read_bytes(), origin=file).requests
    assert [[right.name for right in outputs] for outputs in small.responses] == [["y", "word"]]
    assert [[right.values for right in outputs] for outputs in large.responses] == [
        [(2.0, 0.5), ("näch 0",)],
        [(3.0, 1.5), ("näch 1",)],
    ]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("wrong", "kind", "value"),
    [
        (case(0.0, right=1), ServingError, "final flag without"),
        (case(1.0, 99.0, right=1), ServingError, "1 responses: out of ink"),
        (case(2.0, 98.0, right=2), ServingError, "no final flag within 3 s"),
        (case(2.0, right=1), ParityError, "2 responses; expected 1"),
        (case(2.0, right=2), ParityError, "one, response 2"),
    ],
)
def test_responses_that_fail(tmp_path, wrong, kind, value):
    with pytest.raises(kind) as caught:
        check(tmp_path, wrong, within_s=3.0)
    assert value in str(caught.value)
    assert caught.value.code == ("TS319" if kind is ServingError else "TS312")


def test_a_reference_yields_the_responses(tmp_path):
    requests = [{"inputs": {"x": [2.0, 5.0]}}, {"inputs": {"x": [1.0, 5.0]}}]
    model = counting(tmp_path, recipe={"reference": "right.py:right"}, test_inputs=requests)
    repository = write_repository(model, tmp_path / "work")
    assert tensors(repository) == [("x", "FP32", (2,)), ("y", "FP32", (2,)), ("word", "BYTES", (1,))]
    assert [len(case.responses) for case in repository.cases] == [2, 1]
    np.testing.assert_array_equal(repository.cases[0].responses[1]["y"], [[3.0, 6.0]])
    config = contents(repository.folder)["tiny/config.pbtxt"].decode()
    assert "decoupled: true" in config


X = [{"inputs": {"x": [2.0, 5.0]}}]
BY_REFERENCE = {"recipe": {"reference": "right.py:right"}, "test_inputs": X}
NO_RESPONSES = [{"inputs": {"x": [1.0]}, "outputs": {"y": [1.0]}}]
RESPONSES_OF_A_FILE = [{"file": "rows.npz", "responses": [{"y": [1.0]}]}]
CONFIG = {"triton": {"config": "config.pbtxt"}}
IS, IS_NOT = (f"model_transaction_policy {{ decoupled: {value} }}\n" for value in ("true", "false"))
REJECTED: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "one answer": (
        {"right.py": "def right(request):\n    return {'y': 1}\n"},
        BY_REFERENCE,
        "returned a dict",
    ),
    "nothing": ({"right.py": "def right(request):\n    return []\n"}, BY_REFERENCE, "no expected answer"),
    "a failure": (
        {"right.py": "def right(request):\n    yield {'y': request['x']}\n    1 / 0\n"},
        *(BY_REFERENCE, "right.py:3: ZeroDivisionError"),
    ),
    "rows of a file": ({}, {**BY_REFERENCE, "test_inputs": [{"file": "rows.npz"}]}, "a row of an .npz"),
    "no responses": ({}, {"test_inputs": X}, "`responses: [{...}, ...]`"),
    "a decoupled config": (
        {"config.pbtxt": IS},
        *({**CONFIG, "recipe": {"decoupled": False}, "test_inputs": NO_RESPONSES}, "does not say"),
    ),
    "another config": ({"config.pbtxt": IS_NOT}, CONFIG, "`decoupled: true`"),
    "response cache": ({}, {"triton": {"response_cache": True}}, "streamed responses"),
    "warm-up": ({}, {"triton": {"warm_up": True}}, "is decoupled"),
    "responses of a file": ({}, {"test_inputs": RESPONSES_OF_A_FILE}, "requires `inputs`"),
}


@pytest.mark.parametrize(("files", "more", "value"), REJECTED.values(), ids=REJECTED)
def test_models_and_references_that_are_rejected(tmp_path, files, more, value):
    np.savez(tmp_path / "rows.npz", **{"x": np.ones((2, 3), np.float32), "outputs/y": np.ones((2, 3))})
    assert value in error_of(lambda: counting(tmp_path, files, **more), tmp_path)


def test_shapes_that_flat_lists_cannot_describe(tmp_path):
    requests = [
        {"inputs": {"x": rows}, "responses": [{"y": rows}]}
        for rows in ([[1.0, 2.0]], [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    ]
    violation = violation_of(counting(tmp_path, test_inputs=requests), tmp_path)
    assert (violation.field, violation.code) == ("test_inputs.1", "TS304")
    assert "[1, 2, 3]" in violation.message


def test_inputs_that_json_cannot_hold():
    assert flat_inputs({"x": np.array([[1, 2], [3, 4]]), "t": np.array([b"a", "ä"], np.object_)}) == {
        "x": [1, 2, 3, 4],
        "t": ["a", "ä"],
    }
    for array in (np.array([np.nan]), np.array([b"\xff"], np.object_)):
        with pytest.raises(Exception, match="JSON"):
            flat_inputs({"x": array})
