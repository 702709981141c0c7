"""Compare a loaded model's answers with the expected ones, before serving."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from model_build.checking.parity import compare, judge
from model_build.data.cases import Case, join_cases, same_shapes
from tritonstack.files.model.tolerance import ModelTolerance
from tritonstack.files.records.comparing import Comparison
from tritonstack.files.records.manifests import ParityReport

Array = NDArray[Any]
Answer = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def compare_all(answer: Answer, cases: Iterable[Case]) -> list[Comparison]:
    """Compare every output of every case with the expected one."""
    comparisons = []
    for case in cases:
        actual = answer(case.inputs)
        comparisons += [
            compare(case.name, name, actual=actual[name], expected=expected)
            for name, expected in case.expected.items()
        ]
    return comparisons


def compare_answers(
    answer: Answer, cases: Sequence[Case], accept: ModelTolerance, *, max_batch: int
) -> ParityReport:
    """Run each case alone and, if the model batches, batches of cases with equal shapes."""
    groups = (alike[:max_batch] for alike in same_shapes(cases)) if max_batch > 1 else ()
    joined = [join_cases(alike) for alike in groups if len(alike) > 1]
    return judge("graph", compare_all(answer, [*cases, *joined]), accept)
