"""The examples file of an artifact: valid content, and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tritonstack.base.errors import TritonstackError
from tritonstack.files.records.examples import Examples, parse_examples

TENSOR = {"name": "x", "datatype": "FP32", "shape": [1], "values": [1.0]}
RIGHT = {**TENSOR, "tolerance": {"cosine": 0.9999, "absolute": 0.0001}}
EXAMPLE = {"name": "test input 1", "origin": "framework", "inputs": [TENSOR], "outputs": [RIGHT]}
FACTS: dict[str, Any] = {"model": "tiny", "digest": "ab" * 32}


def examples(**facts: Any) -> Examples:
    return parse_examples(Examples.model_validate_json(json.dumps(FACTS | facts)).to_json(), origin="a file")


def test_examples_are_read_back_unchanged() -> None:
    held = examples(requests=[EXAMPLE])
    assert held.requests[0].outputs[0].tolerance.cosine == 0.9999
    assert held.requests[0].inputs[0].values == (1.0,)
    assert examples(requests=[EXAMPLE]).sha256 == held.sha256
    assert examples(requests=[EXAMPLE | {"name": "test input 2"}]).sha256 != held.sha256


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, "expected examples or a reason for having none"),
        ({"requests": [EXAMPLE | {"inputs": []}]}, "at least 1 item"),
        ({"requests": [EXAMPLE | {"outputs": []}]}, "expected outputs or responses"),
        ({"requests": [EXAMPLE | {"origin": "hearsay"}]}, "framework"),
        (
            {"requests": [EXAMPLE | {"inputs": [TENSOR | {"packed": "eA=="}]}]},
            "exactly one of `values` and `packed`",
        ),
        ({"requests": [EXAMPLE | {"inputs": [TENSOR | {"datatype": "FP8"}]}]}, "unknown datatype 'FP8'"),
        ({"requests": [EXAMPLE | {"inputs": [TENSOR | {"shape": [-1]}]}]}, "greater than or equal to 0"),
    ],
)
def test_contradictory_examples_are_rejected(facts: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        examples(**facts)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}'])
def test_invalid_input_is_reported_with_its_location_and_a_remedy(text: str) -> None:
    with pytest.raises(TritonstackError, match="a/place") as caught:
        parse_examples(text, origin="a/place")
    assert "tritonstack build" in str(caught.value.remedy)
