"""Pairs of texts to the outputs of a graph, in Triton's Python backend.

text_model.py next to this file tokenizes and computes; this module reads the pairs. tokenizer.json defines
which of the two texts is truncated.
"""

from __future__ import annotations

from typing import Any

import text_model
import triton_python_backend_utils as pb_utils
from text_model import TritonPythonModel

__all__ = ["TritonPythonModel"]

INPUTS = ("TEXT", "TEXT_PAIR")


def read_pairs(request: Any) -> list[tuple[str, str]] | str:
    """Return the pairs of a request, or why they cannot be read."""
    columns = []
    for name in INPUTS:
        raw = pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1)
        try:
            columns.append([text.decode("utf-8") for text in raw])
        except UnicodeDecodeError as error:
            return f"{name} is not UTF-8: {error}"
    return list(zip(*columns, strict=True))


text_model.read_texts = read_pairs
