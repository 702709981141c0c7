"""Which cases of a build become the artifact's examples, and with which tolerance."""

from typing import Any

import numpy as np
import pytest

from model_build.checking.examples import MOST_BYTES, MOST_IN_SEQUENCE, examples_of, examples_of_texts
from model_build.data import Case, rows_of
from model_build.inputs.rows import read_rows
from tritonstack.base.yaml import load_document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tolerance import ModelTolerance, Tolerance
from tritonstack.files.records.examples import Examples, array_of

DIGEST = "ab" * 32


def case(name: str, size: int, *, typical: bool = True) -> Case:
    numbers = np.random.default_rng(size).standard_normal((1, size)).astype(np.float32)
    return Case(name, {"x": numbers}, {"y": -numbers}, typical=typical)


def chosen(*cases: Case, keeps_state: bool = False) -> Examples:
    return examples_of(
        cases, ModelTolerance(), model="m", digest=DIGEST, precision="fp32", keeps_state=keeps_state
    )


def names(examples: Examples) -> list[str]:
    return [example.name for example in examples.requests]


def test_three_smallest_requests_are_chosen():
    cases = [case(f"{size}", size) for size in (9, 8, 7, 6)]
    examples = chosen(*cases, case("made up", 1, typical=False))
    assert names(examples) == ["6", "7", "8"]
    np.testing.assert_array_equal(array_of(examples.requests[0].inputs[0]), cases[3].inputs["x"])
    np.testing.assert_array_equal(array_of(examples.requests[0].outputs[0]), cases[3].expected["y"])
    assert (examples.model, examples.digest, examples.none_because) == ("m", DIGEST, "")


LARGE = [case(f"{number}", 16_000 + number) for number in range(3)]
"""In base64 and noise, which does not compress: about 170 kB each."""


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ([case("made up", 1, typical=False)], ["made up"]),
        (LARGE, ["0"]),
        ([case("picture", 150_000), case("larger", 150_001)], ["picture"]),
        ([case("volume", 1_000_000)], []),
    ],
    ids=["generated", "large", "larger than the limit", "too large"],
)
def test_examples_are_limited_by_size(cases, expected):
    examples = chosen(*cases)
    assert names(examples) == expected
    assert (len(examples.to_json()) > MOST_BYTES) == (expected == ["picture"])
    assert ("10 MB" in examples.none_because) == (not expected)


def test_sequence_keeps_its_order_and_start_flag():
    steps = [case(f"{number}", 20 - number) for number in range(MOST_IN_SEQUENCE + 2)]
    examples = chosen(*steps, keeps_state=True)
    assert names(examples) == [f"{number}" for number in range(MOST_IN_SEQUENCE)]
    places = [example.sequence for example in examples.requests]
    assert [(place.start, place.end) for place in places if place] == [
        (True, False),
        *[(False, False)] * (MOST_IN_SEQUENCE - 1),
    ]
    (alone,) = chosen(case("one", 1), keeps_state=True).requests
    assert alone.sequence is not None
    assert (alone.sequence.start, alone.sequence.end) == (True, True)


@pytest.mark.parametrize(
    ("accept", "precision", "output", "expected"),
    [
        ({}, "fp32", "scores", {"cosine": 0.9999, "absolute": 1e-4}),
        ({}, "int8", "scores", {"cosine": 0.97, "relative": 0.3}),
        ({}, "auto", "scores", {"cosine": 0.999, "relative": 0.02}),
        ({"cosine": 0.98, "top1": 1}, "auto", "scores", {"cosine": 0.98, "relative": 0.02, "top1": 1}),
        ({"cosine": 0.98, "absolute": 0.05}, "auto", "scores", {"cosine": 0.98, "absolute": 0.05}),
        ({"absolute": 0.05}, "int8", "scores", {"absolute": 0.05}),
        ({}, "int8", "value", {"relative": 0.1}),
        ({}, "fp16", "label", {"absolute": 0.5}),
        ({"cosine": 0.9}, "fp16", "label", {"cosine": 0.9, "absolute": 0.5}),
        ({"outputs": {"label": {"top1": 1.0}}}, "fp32", "label", {"top1": 1.0, "absolute": 0.5}),
    ],
)
def test_tolerance_equals_the_one_of_the_build(accept, precision, output, expected):
    answers: dict[str, Any] = {
        "scores": np.zeros((1, 3), dtype=np.float32),
        "value": np.zeros((1, 1), dtype=np.float32),
        "label": np.zeros((1, 1), dtype=np.int64),
    }
    examples = examples_of(
        [Case("one", {"x": np.zeros((1, 1))}, answers)],
        ModelTolerance.model_validate(accept),
        model="m",
        digest=DIGEST,
        precision=precision,
        keeps_state=False,
    )
    tolerances = {right.name: right.tolerance for right in examples.requests[0].outputs}
    assert tolerances[output] == Tolerance.model_validate(expected)


def test_examples_of_generating_models_are_texts_only():
    examples = examples_of_texts(["a", "b", "c", "d"], model="m", digest=DIGEST)
    assert (examples.texts, examples.requests) == (("a", "b", "c"), ())


def test_the_origin_of_right_answers_is_recorded(tmp_path):
    file = tmp_path / "model.yaml"
    file.write_text(
        "name: m\ndescription: D.\nsource: file://w\nrecipe: {kind: onnx}\n"
        "test_inputs:\n  - inputs: {x: [1.0]}\n    outputs: {y: [2.0]}\n  - inputs: {x: [1.0]}\n"
    )
    answers = {"y": np.array([[3.0]], dtype=np.float32)}
    rows = [row.case(answers, batches=True) for row in read_rows(load_document(file, ModelSpec))]
    assert [(case.origin, case.expected["y"].tolist()) for case in rows] == [
        ("given", [[2.0]]),
        ("framework", [[3.0]]),
    ]
    assert [row.origin for row in rows_of(rows[0])] == ["given"]
    assert [example.origin for example in chosen(*rows).requests] == ["given", "framework"]
