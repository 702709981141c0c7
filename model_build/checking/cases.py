"""What a model is asked while it is built, and the framework's answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.records.examples import Origin

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A request and what the framework answers; a batch is the arrays' first dimension."""

    name: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    typical: bool = True
    """Whether users send such a thing; only then does its latency say something."""
    origin: Origin = "framework"
    """Who says that `expected` is right."""


def same_shapes(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases that can be rows of one request and of one answer, together; that of the first case first."""
    groups: dict[tuple[tuple[int, ...], ...], list[Case]] = {}
    for case in cases:
        arrays = (*case.inputs.values(), *case.expected.values())
        groups.setdefault(tuple(array.shape for array in arrays), []).append(case)
    return list(groups.values())


def join_cases(cases: Sequence[Case]) -> Case:
    """Several rows as one request."""
    return Case(
        f"{len(cases)} rows",
        {name: np.concatenate([case.inputs[name] for case in cases]) for name in cases[0].inputs},
        {name: np.concatenate([case.expected[name] for case in cases]) for name in cases[0].expected},
    )


def batches(cases: Sequence[Case], max_batch: int) -> Iterator[Case]:
    """Cases of the same shapes as rows of common requests, as many as one takes; none without batching."""
    if not max_batch:
        return
    for alike in same_shapes(cases):
        size = max(1, max_batch // row_count(alike[0]))
        for begin in range(0, len(alike), size):
            yield join_cases(alike[begin : begin + size])


def row_count(case: Case) -> int:
    """How many rows a request has."""
    return len(next(iter(case.inputs.values())))
