"""Texts to token ids, in Triton's Python backend.

tokenizer.json next to this file defines truncation and padding. The texts of all requests that Triton passes
at once are padded to one length, so that the next model computes them as one batch. With the parameter
`padding: groups`, they are sorted by length and padded in small groups, which saves most of the padding. The
next model forms its batches in the order of the responses, so these are sent one by one, in that order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# The tokenizer starts threads for a batch, and prints a warning in processes that fork unless this is set.
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Encoding, Tokenizer

TOKENS_PER_THREAD = 128
"""Size of a group, with padding. Larger batches are hardly faster per token."""


class TritonPythonModel:
    """The interface of Triton's Python backend."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the tokenizer next to this file."""
        folder = Path(args["model_repository"]) / args["model_version"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        padding = self.tokenizer.padding or {}
        self.padding = {name: padding[name] for name in ("direction", "pad_id", "pad_type_id", "pad_token")}
        self.tokenizer.no_padding()
        parameters = json.loads(args["model_config"]).get("parameters", {})
        self.in_groups = parameters.get("padding") == {"string_value": "groups"}
        self.most_tokens = TOKENS_PER_THREAD * int(os.environ.get("OMP_NUM_THREADS") or 1)

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """Return one response per request, or send them; an invalid request does not affect the others."""
        encoded = self.encode([read_texts(request) for request in requests])
        lengths = [0 if isinstance(rows, str) else max(map(len, rows), default=0) for rows in encoded]
        senders = response_senders(requests) if self.in_groups and len(requests) > 1 else None
        if senders is None:
            return [response(rows, max(lengths), self.padding) for rows in encoded]
        sizes = [1 if isinstance(rows, str) else len(rows) for rows in encoded]
        for places in groups(lengths, sizes, self.most_tokens):
            length = max(lengths[place] for place in places)
            for place in places:
                send(senders[place], encoded[place], length, self.padding)
        return None

    def encode(self, readings: Sequence[list[str] | str]) -> list[list[Encoding] | str]:
        """Return the tokens of each request's texts, or why it has none."""
        texts = [text for reading in readings if not isinstance(reading, str) for text in reading]
        try:
            found = iter(self.tokenizer.encode_batch_fast(texts))
        except Exception as error:  # the library raises nothing narrower
            if len(readings) == 1:
                return [f"TEXT cannot be split into tokens: {error}"]
            return [self.encode([reading])[0] for reading in readings]
        return [
            reading if isinstance(reading, str) else [next(found) for _ in reading] for reading in readings
        ]


def groups(lengths: Sequence[int], sizes: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yield the places of each group: similar lengths, and at most `most_tokens` unless it is one request."""
    group: list[int] = []
    rows = 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and lengths[place] * (rows + sizes[place]) > most_tokens:
            yield group
            group, rows = [], 0
        group.append(place)
        rows += sizes[place]
    yield group


def response_senders(requests: Sequence[Any]) -> list[Any] | None:
    """Return what sends the response of each request; None before Triton 24.06."""
    try:
        return [request.get_response_sender() for request in requests]
    except Exception:  # older backends allow it in decoupled models only, and raise nothing narrower
        return None


def send(sender: Any, rows: list[Encoding] | str, length: int, padding: Mapping[str, Any]) -> None:
    """Send the response of a request. Raise nothing: after the first response, that would crash Triton."""
    try:
        answer = response(rows, length, padding)
    except Exception as error:
        answer = response(f"the tokens of TEXT cannot be returned: {error}", length, padding)
    try:
        sender.send(answer, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    except Exception as error:
        pb_utils.Logger.log_error(f"a response could not be sent: {error}")


def response(rows: list[Encoding] | str, length: int, padding: Mapping[str, Any]) -> Any:
    """Return the response with the tokens of a request, or with its error."""
    if isinstance(rows, str):
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(rows))
    for row in rows:
        row.pad(length, **padding)
    columns = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows]}
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor(name, np.array(column, dtype=np.int64).reshape(len(rows), length))
            for name, column in columns.items()
        ]
    )


def read_texts(request: Any) -> list[str] | str:
    """Return the texts of a request, or why they cannot be read."""
    raw = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
    try:
        return [text.decode("utf-8") for text in raw]
    except UnicodeDecodeError as error:
        return f"TEXT is not UTF-8: {error}"
