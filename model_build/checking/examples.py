"""Choose the example requests to store beside the artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from model_build.data import Array, Case
from tritonstack.files.model.tolerance import ModelTolerance, PrecisionOption, Tolerance
from tritonstack.files.records.comparing import kind_of
from tritonstack.files.records.examples import Example, Examples, PlaceInSequence, RightAnswer, tensor_of

MOST_REQUESTS = 3
MOST_IN_SEQUENCE = 8
MOST_BYTES = 256 << 10
"""Limit for all requests together, if there are several."""
MOST_BYTES_ALONE = 8 << 20
"""Limit for a single request. Endpoints accept little more per request."""


def examples_of(
    cases: Sequence[Case],
    accept: ModelTolerance,
    *,
    model: str,
    digest: str,
    precision: PrecisionOption,
    keeps_state: bool,
) -> Examples:
    """Return the smallest typical requests; for a stateful model, the start of its sequence.

    `accept` and `precision` are those used to judge the served archive.
    """
    if keeps_state:
        examples = _sequence(cases, accept, precision)
    else:
        usual = [case for case in cases if case.typical] or cases
        least = sorted(usual, key=_size)[:MOST_REQUESTS]
        examples = [_example(case, accept, precision) for case in least]
    selected = list(_within_limit(examples))
    none_because = ""
    if not selected:
        size = min(map(_bytes_of, examples)) / 1e6
        none_because = (
            f"the smallest test input and its answer take {size:.0f} MB; the limit is "
            f"{MOST_BYTES_ALONE / 1e6:.0f} MB"
        )
    return Examples(model=model, digest=digest, requests=tuple(selected), none_because=none_because)


def examples_of_texts(texts: Sequence[str], *, model: str, digest: str) -> Examples:
    """Return test texts for a generative model, which has no single right answer."""
    return Examples(model=model, digest=digest, texts=tuple(texts[:MOST_REQUESTS]))


def _within_limit(examples: Sequence[Example]) -> Iterator[Example]:
    """Yield examples in order while they fit; the first may be larger."""
    remaining = MOST_BYTES
    for number, example in enumerate(examples):
        size = _bytes_of(example)
        if size > (remaining if number else MOST_BYTES_ALONE):
            return
        yield example
        remaining -= size


def _sequence(cases: Sequence[Case], accept: ModelTolerance, precision: PrecisionOption) -> list[Example]:
    """Return requests in order; a truncated sequence has no end flag."""
    last = len(cases) - 1
    return [
        _example(case, accept, precision, PlaceInSequence(start=index == 0, end=index == last))
        for index, case in enumerate(cases[:MOST_IN_SEQUENCE])
    ]


def _example(
    case: Case, accept: ModelTolerance, precision: PrecisionOption, sequence: PlaceInSequence | None = None
) -> Example:
    return Example(
        name=case.name,
        origin=case.origin,
        inputs=tuple(tensor_of(name, array) for name, array in case.inputs.items()),
        outputs=_right_answers(case.expected, accept, precision),
        responses=tuple(_right_answers(response, accept, precision) for response in case.responses),
        sequence=sequence,
    )


def _right_answers(
    expected: Mapping[str, Array], accept: ModelTolerance, precision: PrecisionOption
) -> tuple[RightAnswer, ...]:
    return tuple(
        RightAnswer(
            **dict(tensor_of(name, array)),
            tolerance=_tolerance(accept.tolerance(name, precision, kind_of(array))),
        )
        for name, array in expected.items()
    )


def _tolerance(tolerance: Tolerance) -> Tolerance:
    """Return the bounds only, without `accept.outputs`."""
    return Tolerance(**tolerance.model_dump(include=set(Tolerance.model_fields)))


def _bytes_of(example: Example) -> int:
    return len(example.model_dump_json(exclude_defaults=True))


def _size(case: Case) -> int:
    """Estimate the size of a request and its answer."""
    return sum(map(_size_of, (case.inputs, case.expected, *case.responses)))


def _size_of(arrays: Mapping[str, Array]) -> int:
    texts = (item for array in arrays.values() if array.dtype.kind == "O" for item in array.flat)
    return sum(array.nbytes for array in arrays.values()) + sum(len(str(item)) for item in texts)
