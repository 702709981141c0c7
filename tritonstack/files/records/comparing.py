"""Compare outputs with expected outputs, and check the differences against tolerances.

Builds compare the built model with it, and `verify` compares an endpoint's responses: both with the same
measures. Expected outputs are called the framework's here, whatever their source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.error_kinds import UncheckedAnswerError
from tritonstack.base.errors import TritonstackError
from tritonstack.files.model.tolerance import Answers, Tolerance

Array = NDArray[Any]
LONGEST_SHOWN = 40
NAN_EXPECTED = "the framework's output is NaN"


class IncomparableError(TritonstackError):
    """An output has another shape than the expected one."""

    code = UncheckedAnswerError.code


@dataclass(frozen=True)
class Comparison:
    """One output of one request compared with the framework's. NaN never passes."""

    case: str
    output: str
    cosine: float
    """Minimum cosine similarity of any row."""
    absolute: float
    """Maximum absolute difference of any value."""
    relative: float
    """Maximum difference relative to the largest value of its row."""
    top1: float
    """Share of rows (of the last dimension) whose largest value is at the same index; for texts, the share of
    equal texts."""
    answers: Answers = "vectors"
    note: str = ""
    """Remarks beyond the numbers."""

    def is_within(self, tolerance: Tolerance) -> bool:
        """Check whether the difference is within a tolerance."""
        return self.is_number and all(measure.is_within(self, tolerance) for measure in MEASURES)

    @property
    def is_number(self) -> bool:
        """Whether the output has numbers wherever the framework's has."""
        return math.isfinite(self.absolute)


@dataclass(frozen=True)
class Measure:
    """One measure of difference."""

    field: Literal["cosine", "absolute", "relative", "top1"]
    title: str
    form: str
    grows: bool
    """Whether larger values are worse."""

    def is_within(self, comparison: Comparison, tolerance: Tolerance) -> bool:
        """Check whether a comparison is within the tolerance of this measure."""
        value, bound = self.value(comparison), self.bound(tolerance)
        return bound is None or (value <= bound if self.grows else value >= bound)

    def value(self, comparison: Comparison) -> float:
        """Return the measured value."""
        return float(getattr(comparison, self.field))

    def bound(self, tolerance: Tolerance) -> float | None:
        """Return the bound; None if the tolerance has none."""
        bound: float | None = getattr(tolerance, self.field)
        return bound

    def excess(self, comparison: Comparison, tolerance: Tolerance) -> float:
        """Return the error as a multiple of the accepted error."""
        value, bound = self.value(comparison), self.bound(tolerance)
        if bound is None:
            return 0.0
        wrong, accepted = (value, bound) if self.grows else (1 - value, 1 - bound)
        return math.inf if math.isnan(wrong) else wrong / max(accepted, _TINY)

    def describe_bound(self, tolerance: Tolerance) -> str:
        """Format the bound."""
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
    """Compare row by row in double precision; texts must be equal.

    Infinities, which mask values, must be at the same indices as the framework's; they are otherwise ignored.
    """
    if actual.shape != expected.shape:
        raise IncomparableError(
            f"{case}: {output} has shape {list(actual.shape)}, expected {list(expected.shape)}",
            remedy="check that the endpoint serves the locked artifact; if it does, rebuild the model",
        )
    if actual.size == 0:
        return Comparison(case, output, 1.0, 0.0, 0.0, 1.0)
    if np.object_ in (actual.dtype, expected.dtype):
        return _compare_texts(case, output, actual, expected)
    actual_rows, expected_rows = _rows(actual), _rows(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.where(actual_rows == expected_rows, 0.0, np.abs(actual_rows - expected_rows)).max(
            axis=1
        )
    masked = np.isinf(expected_rows) & (actual_rows == expected_rows)
    actual_rows, expected_rows = np.where(masked, 0.0, actual_rows), np.where(masked, 0.0, expected_rows)
    largest = np.abs(expected_rows).max(axis=1)
    with np.errstate(invalid="ignore"):
        relative = np.divide(differences, largest, out=np.array(differences), where=largest > 0)
    top1 = (_last_axis(actual).argmax(axis=1) == _last_axis(expected).argmax(axis=1)).mean()
    return Comparison(
        case,
        output,
        float(_cosines(actual_rows, expected_rows).min()),
        float(differences.max()),
        float(relative.max()),
        float(top1),
        answers=kind_of(expected),
        note=_nan_note(actual, expected),
    )


def kind_of(expected: Array) -> Answers:
    """Return the kind of outputs (vectors, single numbers, or integers), which selects the default
    tolerance."""
    if expected.dtype.kind in "biu":
        return "whole"
    is_single = expected.dtype != np.object_ and expected.size > 0 and _rows(expected).shape[1] == 1
    return "numbers" if is_single else "vectors"


def first_difference(actual: Array, expected: Array, tolerance: Tolerance) -> str:
    """Describe the first value outside the tolerance, or else the largest difference; empty if equal."""
    if np.object_ in (actual.dtype, expected.dtype):
        pairs = zip(np.ndindex(expected.shape), actual.flat, expected.flat, strict=True)
        different = next((pair for pair in pairs if _as_bytes(pair[1]) != _as_bytes(pair[2])), None)
        if different is None:
            return ""
        place, actual_text, expected_text = different
        return f"{_shown(actual_text)} for {_shown(expected_text)} at {list(place)}"
    apart = np.nan_to_num(_apart(actual, expected), nan=math.inf)
    if not apart.any():
        return ""
    beyond = np.flatnonzero(apart > _accepted(expected, tolerance))
    index = int(beyond[0] if beyond.size else apart.argmax())
    place = tuple(map(int, np.unravel_index(index, expected.shape)))
    return f"{actual.flat[index]:.6g} for {expected.flat[index]:.6g} at {list(place)}"


def _apart(actual: Array, expected: Array) -> Array:
    actual_values, expected_values = actual.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(actual_values == expected_values, 0.0, np.abs(actual_values - expected_values))


def _accepted(expected: Array, tolerance: Tolerance) -> Array:
    """Return the accepted error of each value; the cosine does not bound single values."""
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
        (_as_bytes(actual_text), _as_bytes(expected_text))
        for actual_text, expected_text in zip(actual.flat, expected.flat, strict=True)
    ]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    if not wrong:
        return Comparison(case, output, 1.0, 0.0, 0.0, 1.0)
    actual_text, expected_text = (text.decode(errors="replace")[:LONGEST_SHOWN] for text in wrong[0])
    same = 1 - len(wrong) / len(pairs)
    note = f"{actual_text!r} for {expected_text!r}"
    return Comparison(case, output, -1.0, float(len(wrong)), 1.0, same, note=note)


def _nan_note(actual: Array, expected: Array) -> str:
    if np.isnan(expected).any():
        return NAN_EXPECTED
    both = np.isfinite(actual) | (actual == expected)
    return "" if both.all() else "the output is NaN where the framework's is not"


def _as_bytes(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()


def _cosines(actual: Array, expected: Array) -> Array:
    """Return cosine similarities; zero vectors are similar only to zero vectors."""
    equal = (actual == expected).all(axis=1)
    with np.errstate(invalid="ignore"):
        lengths = np.linalg.norm(actual, axis=1) * np.linalg.norm(expected, axis=1)
        products = (actual * expected).sum(axis=1)
        return np.where(equal, 1.0, np.divide(products, lengths, out=lengths, where=lengths != 0))


def _last_axis(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)
