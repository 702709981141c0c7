"""Files of a new model: a commented model.yaml per recipe, and code where the recipe needs it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from tritonstack.files.model.fields import SOURCE_FORMS
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import Recipe
from tritonstack.files.scaffold.commented_yaml import commented_yaml
from tritonstack.files.scaffold.repository import FOLDER

RECIPES = {
    get_args(record.model_fields["kind"].annotation)[0]: record for record in get_args(get_args(Recipe)[0])
}
"""Records of the recipes by kind."""
SOURCELESS = ("ensemble", "python", "torchscript")
"""Recipes that need no source."""
_OPTIONAL = ("precision", "accept", "batching", "tensors", "triton", "trust")
_MODEL_PY = FOLDER / "examples" / "python" / "models" / "double" / "model.py"
_ENTRY = '''"""Create the module that the build traces."""

from __future__ import annotations

from pathlib import Path

import torch


class Double(torch.nn.Module):
    """Return twice the input."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Arguments are the model's inputs; keys of the result are its outputs."""
        return {"y": x * 2}


def load(folder: Path) -> torch.nn.Module:
    """Return the module. `folder` holds the files of the source."""
    return Double()
'''
_TEXTS = ("Replace this with a text that your users send.", "Add short, long, and unusual texts.")
_PAIRS = ({"text": "A query, or a premise.", "text_pair": "Replace this pair with one of yours."},)
_QUESTIONS = ({"question": "What does a test input need?", "context": "Replace this test input with yours."},)
PLACEHOLDER_IMAGE = "example.png"
"""A gray image that new files name as their test input."""
PLACEHOLDERS = frozenset((*_TEXTS, *_PAIRS[0].values(), *_QUESTIONS[0].values()))
"""Texts of new files that are to be replaced."""
_INPUTS = {"x": [1.0, 2.0]}


@dataclass(frozen=True)
class NewModel:
    """What a new model.yaml says."""

    name: str
    kind: str
    source: str | None = None
    file: str | None = None
    """The model's file in the source, for recipes that name one."""
    members: Sequence[str] = ()
    """Models of an ensemble, in order."""
    test_inputs: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """Test inputs of an ensemble, from its first model."""


def model_texts(new: NewModel) -> dict[str, bytes]:
    """Return the files of a new model's folder by name."""
    files = {"model.yaml": _model_yaml(new).encode()}
    if new.kind == "python":
        files["model.py"] = _MODEL_PY.read_bytes()
    if new.kind == "torchscript" and new.file is None:
        files["export.py"] = _ENTRY.encode()
    if RECIPES[new.kind].model_construct().takes == "images":
        files[PLACEHOLDER_IMAGE] = placeholder_image()
    return files


def _model_yaml(new: NewModel) -> str:
    record = RECIPES[new.kind]
    values: dict[str, Any] = {"name": new.name, "description": f"{new.name}: describe what it does."}
    if new.source is not None:
        values["source"] = new.source
    values["recipe"] = {"kind": new.kind, **_recipe(new)}
    values["test_inputs"] = _test_inputs(new)
    text = commented_yaml(ModelSpec, values, optional=_OPTIONAL)
    sources = "".join(f"#   {form}\n" for form in SOURCE_FORMS)
    return (
        f"# {record.__doc__}\n# `tritonstack build` checks every answer of the built model.\n"
        + ("" if new.kind == "ensemble" else f"# Forms of `source`:\n{sources}")
        + text
    )


def _recipe(new: NewModel) -> dict[str, Any]:
    if new.kind == "ensemble":
        return {"steps": [{"model": member} for member in new.members]}
    if new.kind == "torchscript" and new.file is None:
        return {"entry": "export.py:load"}
    return {"file": new.file} if new.file is not None else {}


def _test_inputs(new: NewModel) -> list[Any]:
    if new.test_inputs:
        return list(new.test_inputs)
    if new.kind == "python":
        return [{"inputs": _INPUTS, "outputs": {"y": [2 * value for value in _INPUTS["x"]]}}]
    if new.kind == "torchscript":
        return [{"inputs": _INPUTS}]
    takes = RECIPES[new.kind].model_construct().takes
    forms: dict[str, list[Any]] = {
        "texts": list(_TEXTS),
        "pairs": list(_PAIRS),
        "questions": list(_QUESTIONS),
        "images": [{"image": PLACEHOLDER_IMAGE}],
        "tensors": [{"random": {"rows": 4}}],
    }
    return forms[takes]


def placeholder_image(size: int = 32) -> bytes:
    """Return a square gray image."""
    rows = b"".join(b"\0" + bytes([128, 128, 128]) * size for _ in range(size))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
