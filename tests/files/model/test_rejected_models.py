"""What a model's file cannot say: field, code, line, and the words that an error needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.files.one_endpoint import names
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.facts.releases import RELEASES
from tritonstack.files.model.backend_rules import tensorrt_violations
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tensorrt import TensorRT
from tritonstack.files.model.triton_options import Batching

USUAL: dict[str, Any] = {
    "name": "scorer",
    "description": "Scores.",
    "source": "file://weights",
    "test_inputs": [{"random": {}}],
}
REJECTED = [
    pytest.param(entry, id=" ".join(entry["told"]))
    for entry in yaml.safe_load((Path(__file__).parent / "rejected_models.yaml").read_text())
]


def violations(folder: Path, changes: dict[str, Any]) -> tuple[FileViolation, ...]:
    document = {key: value for key, value in (USUAL | changes).items() if value is not None}
    file = folder / "model.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, ModelSpec)
    return caught.value.violations


@pytest.mark.parametrize("entry", REJECTED)
def test_an_entry_is_rejected(tmp_path: Path, entry: dict[str, Any]) -> None:
    errors, told = violations(tmp_path, entry["model"]), entry["told"]
    assert [(error.field, error.code) for error in errors] == [
        (field, text.split()[0]) for field, text in told.items()
    ]
    assert all(error.remedy and error.line for error in errors)
    assert all(names(error, told[error.field].partition(" ")[2]) for error in errors), errors


def test_all_violations_at_once(tmp_path: Path) -> None:
    batching = {"dynamic": False, "queue_delay_us": 5, "preferred_sizes": [2, 2]}
    triton = {"versions": {"specific": [3]}, "optimization": {"cuda_graphs": True}}
    changes = {"recipe": {"kind": "onnx"}, "batching": batching, "triton": triton}
    assert len(violations(tmp_path, changes)) == 5


def test_all_fields_of_the_queue_are_known() -> None:
    """A new field of batching needs a rule, or an entry here that it needs none."""
    assert set(Batching.model_fields) == {
        *("max_batch", "dynamic", "queue_delay_us", "preferred_sizes"),
        *("keep_order", "ragged", "priorities", "queue"),
    }


def test_tensorrt_of_a_later_release_is_rejected() -> None:
    """No supported release has it yet."""
    release = replace(RELEASES["25.04"], tensorrt="11.0.0.1")
    (violation, *_) = tensorrt_violations(TensorRT(), "fp32", release)
    assert (violation.path, violation.code) == (("tensorrt",), "TS114")
