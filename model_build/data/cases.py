"""Test requests of a build, with the framework's answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.files.records.examples import Origin

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A request with the framework's answer; the first dimension of each array is the batch."""

    name: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    typical: bool = True
    """Whether users send such requests; latency is measured only for these."""
    origin: Origin = "framework"
    """Source of `expected`."""
    responses: Sequence[Mapping[str, Array]] = ()
    """Responses of a decoupled model, in order; `expected` is then empty."""


def same_shapes(cases: Sequence[Case]) -> list[list[Case]]:
    """Group cases that can share one request, by shape; the first case's group comes first."""
    groups: dict[tuple[tuple[int, ...], ...], list[Case]] = {}
    for case in cases:
        arrays = (*case.inputs.values(), *case.expected.values())
        groups.setdefault(tuple(array.shape for array in arrays), []).append(case)
    return list(groups.values())


def join_cases(cases: Sequence[Case]) -> Case:
    """Join several rows into one request."""
    return Case(
        f"{len(cases)} rows",
        {name: np.concatenate([case.inputs[name] for case in cases]) for name in cases[0].inputs},
        {name: np.concatenate([case.expected[name] for case in cases]) for name in cases[0].expected},
    )


def batches(cases: Sequence[Case], max_batch: int) -> Iterator[Case]:
    """Join cases of equal shapes into batches of up to `max_batch` rows; yield none without batching."""
    if not max_batch:
        return
    for alike in same_shapes(cases):
        size = max(1, max_batch // row_count(alike[0]))
        for begin in range(0, len(alike), size):
            yield join_cases(alike[begin : begin + size])


def row_count(case: Case) -> int:
    """Return the number of rows in a request."""
    return len(next(iter(case.inputs.values())))


def rows_of(case: Case) -> list[Case]:
    """Split a case into one case per row."""
    return [
        Case(
            f"{case.name}, row {row + 1}",
            {name: array[row : row + 1] for name, array in case.inputs.items()},
            {name: array[row : row + 1] for name, array in case.expected.items()},
            typical=case.typical,
            origin=case.origin,
        )
        for row in range(row_count(case))
    ]
