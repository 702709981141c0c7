"""Compute the framework's answer to a question: the reference for the served search."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

Array = NDArray[Any]


def best_answer(
    context: str, *, starts: Array, ends: Array, offsets: Array, max_answer_tokens: int
) -> tuple[str, float, int, int]:
    """Return text, score, start, and end of the best span, for one row of logits."""
    tokens = [place for place, (begin, end) in enumerate(offsets) if end > begin]
    if not tokens:
        return "", 0.0, 0, 0
    chances_of_start = torch.softmax(torch.from_numpy(starts[tokens]).double(), dim=0)
    chances_of_end = torch.softmax(torch.from_numpy(ends[tokens]).double(), dim=0)
    best, span = -1.0, (0, 0)
    for i, first in enumerate(tokens):
        for j, last in enumerate(tokens[i:], start=i):
            chance = float(chances_of_start[i] * chances_of_end[j])
            if last - first < max_answer_tokens and chance > best:
                best, span = chance, (first, last)
    begin, end = int(offsets[span[0], 0]), int(offsets[span[1], 1])
    return context[begin:end], best, begin, end
