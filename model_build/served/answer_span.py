"""From a model's numbers for each token to the best answer in the context, in Triton's Python backend.

A span begins and ends with a token of the context and is at most as long as answer.json beside this file
says. How likely it is is the chance that it begins there times the chance that it ends there, among all
tokens of the context. Of spans that are equally likely, the first is the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

INPUTS = ("start_logits", "end_logits", "offsets", "CONTEXT")
NOT_THERE = np.finfo(np.float64).min / 4  # so small that no sum of two comes near a real number


class TritonPythonModel:
    """What Triton calls."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read how long an answer may be."""
        file = Path(args["model_repository"]) / args["model_version"] / "answer.json"
        self.longest = json.loads(file.read_text())["max_answer_tokens"]

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response for each request; a request that cannot be read spares its neighbours."""
        return [self.respond(request) for request in requests]

    def respond(self, request: Any) -> Any:
        """The answers to the rows of a request, found at once."""
        starts, ends, offsets, contexts = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in INPUTS
        )
        try:
            texts = [text.decode("utf-8") for text in contexts.reshape(-1)]
        except UnicodeDecodeError as error:
            message = pb_utils.TritonError(f"CONTEXT is not UTF-8: {error}")
            return pb_utils.InferenceResponse(error=message)
        first, last, scores = best_spans(starts, ends, offsets, self.longest)
        rows = np.arange(len(texts))
        begin, end = offsets[rows, first, 0], offsets[rows, last, 1]
        answers = [text[a:b].encode() for text, a, b in zip(texts, begin, end, strict=True)]
        arrays = {
            "answer": np.array(answers, dtype=np.object_),
            "score": scores.astype(np.float32),
            "start": begin,
            "end": end,
        }
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, array.reshape(-1, 1)) for name, array in arrays.items()]
        )


def best_spans(
    starts: np.ndarray, ends: np.ndarray, offsets: np.ndarray, longest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first and the last token of each row's best span, and how likely it is; 0 where there is none."""
    in_context = offsets[..., 1] > offsets[..., 0]
    begins, finishes = (log_chances(numbers, in_context) for numbers in (starts, ends))
    padded = np.pad(finishes, ((0, 0), (0, longest - 1)), constant_values=NOT_THERE)
    windows = np.lib.stride_tricks.sliding_window_view(padded, longest, axis=1)
    spans = begins + windows.max(axis=2)
    rows = np.arange(len(spans))
    first = spans.argmax(axis=1)
    last = np.minimum(first + windows[rows, first].argmax(axis=1), starts.shape[1] - 1)
    return first, last, np.exp(spans[rows, first]) * in_context.any(axis=1)


def log_chances(numbers: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Logarithms of a softmax over the places that are possible."""
    kept = np.where(possible, numbers.astype(np.float64), NOT_THERE)
    shifted = kept - kept.max(axis=1, keepdims=True)
    chances = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.where(possible, chances, NOT_THERE)
