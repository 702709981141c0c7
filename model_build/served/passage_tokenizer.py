"""Texts, or questions with their contexts, to tokens and to where these stand, in Triton's Python backend.

The configuration says what comes and goes: one input is texts, two are questions and contexts; the outputs
are some of input_ids, attention_mask, token_type_ids and offsets, each in the type that it has there. Offsets
are counted in characters, and are (0, 0) for tokens that stand nowhere: special ones, padding, and those of
the question where there is one. Truncation is spelt out in tokenizer.json beside this file. Where callers see
tokens, each request is padded by itself; where they do not, the parameter `padding` says `together`, and
requests of any lengths make one batch for the model behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# The library starts threads of its own for a batch; it wants to be told that this is meant.
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Encoding, Tokenizer

TYPES = {"TYPE_INT64": np.int64, "TYPE_INT32": np.int32}
"""Engines of older TensorRT versions take the latter."""


class TritonPythonModel:
    """What Triton calls."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the tokenizer that lies beside this file."""
        folder = Path(args["model_repository"]) / args["model_version"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        padding = self.tokenizer.padding or {}
        self.fill = {"input_ids": padding["pad_id"], "token_type_ids": padding["pad_type_id"]}
        self.tokenizer.no_padding()
        config = json.loads(args["model_config"])
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.together = config.get("parameters", {}).get("padding") == {"string_value": "together"}
        self.outputs = {tensor["name"]: TYPES[tensor["data_type"]] for tensor in config["output"]}

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response for each request; a request that cannot be read spares its neighbours."""
        encoded = self.encode([read_rows(request, self.inputs) for request in requests])
        lengths = [
            max((len(row) for row in rows), default=0) for rows in encoded if not isinstance(rows, str)
        ]
        together = max(lengths, default=0) if self.together else None
        return [
            pb_utils.InferenceResponse(error=pb_utils.TritonError(rows))
            if isinstance(rows, str)
            else pb_utils.InferenceResponse(self.tensors(rows, together or max(map(len, rows))))
            for rows in encoded
        ]

    def encode(self, readings: Sequence[list[Any] | str]) -> list[list[Encoding] | str]:
        """The tokens of each request's rows, made all at once if none is refused."""
        readable = [row for rows in readings if not isinstance(rows, str) for row in rows]
        try:
            found = iter(self.tokenizer.encode_batch(readable))
        except Exception as error:  # the library raises nothing narrower
            if len(readings) == 1:
                return [f"{' and '.join(self.inputs)} cannot be split into tokens: {error}"]
            return [self.encode([rows])[0] for rows in readings]
        return [rows if isinstance(rows, str) else [next(found) for _ in rows] for rows in readings]

    def tensors(self, rows: Sequence[Encoding], length: int) -> list[Any]:
        """The outputs for the rows of a request, filled up to one length."""
        arrays = {
            "input_ids": filled([row.ids for row in rows], length, self.fill["input_ids"]),
            "attention_mask": filled([row.attention_mask for row in rows], length, 0),
            "token_type_ids": filled([row.type_ids for row in rows], length, self.fill["token_type_ids"]),
            "offsets": np.zeros((len(rows), length, 2), dtype=np.int64),
        }
        for row, tokens in enumerate(rows):
            # Of a pair, the second text counts.
            stands = np.array([place == len(self.inputs) - 1 for place in tokens.sequence_ids], dtype=bool)
            arrays["offsets"][row, : len(tokens)][stands] = np.array(tokens.offsets)[stands]
        return [
            pb_utils.Tensor(name, arrays[name].astype(kind, copy=False))
            for name, kind in self.outputs.items()
        ]


def filled(rows: Sequence[Sequence[int]], length: int, fill: int) -> np.ndarray:
    """Rows of numbers as one array."""
    array = np.full((len(rows), length), fill, dtype=np.int64)
    for place, row in enumerate(rows):
        array[place, : len(row)] = row
    return array


def read_rows(request: Any, names: Sequence[str]) -> list[Any] | str:
    """The texts of a request, or its pairs of texts, as a list; or what is wrong with them as a str."""
    columns = []
    for name in names:
        raw = pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1)
        try:
            columns.append([text.decode("utf-8") for text in raw])
        except UnicodeDecodeError as error:
            return f"{name} is not UTF-8: {error}"
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
