"""How far answers are from those that are right, and whether that is near enough.

Builds compare with this what they have made, and smoke requests what an endpoint answers: both with the same
measures. The right answers are called the framework's here, whoever gave them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.errors import TritonstackError
from tritonstack.spec.models.tolerance import Answers, Tolerance

Array = NDArray[Any]
LONGEST_SHOWN = 40
NAN_EXPECTED = "the framework's answer is no number"


class IncomparableError(TritonstackError):
    """An answer that has another shape than the right one."""


@dataclass(frozen=True)
class Comparison:
    """One output of one request against the framework's. What is not a number is never near enough."""

    case: str
    output: str
    cosine: float
    """The lowest cosine similarity of any row."""
    absolute: float
    """The largest difference of any value."""
    relative: float
    """The same as a share of the largest value of its row."""
    top1: float
    """The share of rows, of the last dimension, whose largest value stands in the same place; of texts, the
    share of those that are the same."""
    answers: Answers = "vectors"
    note: str = ""
    """What the numbers do not tell."""

    def is_within(self, tolerance: Tolerance) -> bool:
        """Whether this is near enough."""
        return self.is_number and all(measure.is_within(self, tolerance) for measure in MEASURES)

    @property
    def is_number(self) -> bool:
        """Whether the answer has numbers wherever the framework's has."""
        return math.isfinite(self.absolute)


@dataclass(frozen=True)
class Measure:
    """One way of telling how far answers are apart."""

    field: Literal["cosine", "absolute", "relative", "top1"]
    title: str
    form: str
    grows: bool
    """Whether more is worse."""

    def is_within(self, comparison: Comparison, tolerance: Tolerance) -> bool:
        """Whether a comparison is near enough by this measure."""
        value, bound = self.value(comparison), self.bound(tolerance)
        return bound is None or (value <= bound if self.grows else value >= bound)

    def value(self, comparison: Comparison) -> float:
        """What was measured."""
        return float(getattr(comparison, self.field))

    def bound(self, tolerance: Tolerance) -> float | None:
        """What is accepted; None where nothing is asked."""
        bound: float | None = getattr(tolerance, self.field)
        return bound

    def excess(self, comparison: Comparison, tolerance: Tolerance) -> float:
        """How many times the error that is accepted."""
        value, bound = self.value(comparison), self.bound(tolerance)
        if bound is None:
            return 0.0
        wrong, accepted = (value, bound) if self.grows else (1 - value, 1 - bound)
        return math.inf if math.isnan(wrong) else wrong / max(accepted, _TINY)

    def told_bound(self, tolerance: Tolerance) -> str:
        """What is accepted, in words."""
        bound = self.bound(tolerance)
        return "any" if bound is None else f"{'<=' if self.grows else '>='} {bound}"


_TINY = 1e-12
MEASURES = (
    Measure("cosine", "cosine", ".7f", grows=False),
    Measure("absolute", "absolute", ".2e", grows=True),
    Measure("relative", "relative", ".2e", grows=True),
    Measure("top1", "top-1", ".3f", grows=False),
)


def compare(case: str, output: str, *, actual: Array, expected: Array) -> Comparison:
    """Compare row by row, in double precision; texts have to be the same.

    Infinities, which mask places, have to stand where the framework has them, and are otherwise left out.
    """
    if actual.shape != expected.shape:
        raise IncomparableError(
            f"{case}: {output} has the shape {list(actual.shape)}, the framework's {list(expected.shape)}"
        )
    if actual.size == 0:
        return Comparison(case, output, 1.0, 0.0, 0.0, 1.0)
    if np.object_ in (actual.dtype, expected.dtype):
        return _compare_texts(case, output, actual, expected)
    ours, theirs = _rows(actual), _rows(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.where(ours == theirs, 0.0, np.abs(ours - theirs)).max(axis=1)
    masked = np.isinf(theirs) & (ours == theirs)
    ours, theirs = np.where(masked, 0.0, ours), np.where(masked, 0.0, theirs)
    largest = np.abs(theirs).max(axis=1)
    with np.errstate(invalid="ignore"):
        relative = np.divide(differences, largest, out=np.array(differences), where=largest > 0)
    top1 = (_last_axis(actual).argmax(axis=1) == _last_axis(expected).argmax(axis=1)).mean()
    return Comparison(
        case,
        output,
        float(_cosines(ours, theirs).min()),
        float(differences.max()),
        float(relative.max()),
        float(top1),
        answers=kind_of(expected),
        note=_what_is_no_number(actual, expected),
    )


def kind_of(expected: Array) -> Answers:
    """Whether answers are vectors, single numbers or whole ones, which decides what is asked of them."""
    if expected.dtype.kind in "biu":
        return "whole"
    is_single = expected.dtype != np.object_ and expected.size > 0 and _rows(expected).shape[1] == 1
    return "numbers" if is_single else "vectors"


def first_difference(actual: Array, expected: Array, tolerance: Tolerance) -> str:
    """The first value that is further off than is accepted, or the furthest off; empty if all are equal."""
    if np.object_ in (actual.dtype, expected.dtype):
        pairs = zip(np.ndindex(expected.shape), actual.flat, expected.flat, strict=True)
        found = next((pair for pair in pairs if _as_bytes(pair[1]) != _as_bytes(pair[2])), None)
        if found is None:
            return ""
        place, ours, theirs = found
        return f"{_shown(ours)} for {_shown(theirs)} at {list(place)}"
    apart = np.nan_to_num(_apart(actual, expected), nan=math.inf)
    if not apart.any():
        return ""
    beyond = np.flatnonzero(apart > _accepted(expected, tolerance))
    index = int(beyond[0] if beyond.size else apart.argmax())
    place = tuple(map(int, np.unravel_index(index, expected.shape)))
    return f"{actual.flat[index]:.6g} for {expected.flat[index]:.6g} at {list(place)}"


def _apart(actual: Array, expected: Array) -> Array:
    ours, theirs = actual.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(ours == theirs, 0.0, np.abs(ours - theirs))


def _accepted(expected: Array, tolerance: Tolerance) -> Array:
    """How far off each value may be; what a cosine accepts is no matter of one value."""
    largest = np.abs(_rows(expected)).max(axis=1)
    bounds = np.full(len(largest), math.inf if tolerance.absolute is None else tolerance.absolute)
    if tolerance.relative is not None:
        bounds = np.minimum(bounds, tolerance.relative * largest)
    return np.repeat(bounds, expected.size // len(largest))


def _shown(item: object) -> str:
    return repr(_as_bytes(item).decode(errors="replace")[:LONGEST_SHOWN])


def _rows(array: Array) -> Array:
    return array.astype(np.float64).reshape(len(array) if array.ndim else 1, -1)


def _compare_texts(case: str, output: str, actual: Array, expected: Array) -> Comparison:
    pairs = [
        (_as_bytes(ours), _as_bytes(theirs)) for ours, theirs in zip(actual.flat, expected.flat, strict=True)
    ]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    if not wrong:
        return Comparison(case, output, 1.0, 0.0, 0.0, 1.0)
    ours, theirs = (text.decode(errors="replace")[:LONGEST_SHOWN] for text in wrong[0])
    same = 1 - len(wrong) / len(pairs)
    note = f"{ours!r} for {theirs!r}"
    return Comparison(case, output, -1.0, float(len(wrong)), 1.0, same, note=note)


def _what_is_no_number(actual: Array, expected: Array) -> str:
    if np.isnan(expected).any():
        return NAN_EXPECTED
    both = np.isfinite(actual) | (actual == expected)
    return "" if both.all() else "the answer is no number where the framework's is"


def _as_bytes(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()


def _cosines(ours: Array, theirs: Array) -> Array:
    """Zeros have no direction: they are like zeros alone."""
    equal = (ours == theirs).all(axis=1)
    with np.errstate(invalid="ignore"):
        lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        products = (ours * theirs).sum(axis=1)
        return np.where(equal, 1.0, np.divide(products, lengths, out=lengths, where=lengths != 0))


def _last_axis(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)
