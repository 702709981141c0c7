"""Tolerances: how far a built model's outputs may differ from the framework's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tritonstack.base.error_kinds import MissingKeyError
from tritonstack.base.yaml import Record, raise_violations

Precision = Literal["fp32", "fp16", "bf16", "int8"]
"""Number format of served weights."""
PrecisionOption = Literal["fp32", "fp16", "bf16", "int8", "auto"]
"""auto: on CPUs, the fastest graph that is accurate enough."""

_SIGNS = {"cosine": ">=", "absolute": "<=", "relative": "<=", "top1": ">="}


class Tolerance(Record):
    """How far one output may differ from the framework's. Measures without a bound are not checked."""

    cosine: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Minimum cosine similarity of any row."""
    absolute: Annotated[float, Field(gt=0)] | None = None
    """Maximum absolute difference of any value."""
    relative: Annotated[float, Field(gt=0)] | None = None
    """Maximum difference of any value, relative to the largest value of its row."""
    top1: Annotated[float, Field(ge=0, le=1)] | None = None
    """Minimum share of rows whose largest value is at the same index."""

    @property
    def is_open(self) -> bool:
        """Whether it has no bounds."""
        return all(bound is None for bound in (self.cosine, self.absolute, self.relative, self.top1))

    def loosened(self, other: Tolerance) -> Tolerance:
        """Return the looser of both bounds for each measure."""
        bounds = {
            name: (min if sign == ">=" else max)(mine, theirs)
            for name, sign in _SIGNS.items()
            if (mine := getattr(self, name)) is not None and (theirs := getattr(other, name)) is not None
        }
        return Tolerance(**bounds)

    def __str__(self) -> str:
        """Return the bounds in one line, such as `cosine >= 0.9999, absolute <= 0.0001`."""
        bounds = self.model_dump(include=set(_SIGNS), exclude_none=True)
        return ", ".join(f"{name} {_SIGNS[name]} {bound}" for name, bound in bounds.items())


Answers = Literal["vectors", "numbers", "whole"]
"""Rows with several numbers, rows with one number, and integers, which are usually ids rather than
amounts."""

DEFAULT_TOLERANCES: Mapping[PrecisionOption, Tolerance] = {
    "fp32": Tolerance(cosine=0.9999, absolute=1e-4),
    "fp16": Tolerance(cosine=0.999, relative=0.02),
    "bf16": Tolerance(cosine=0.995, relative=0.1),
    "int8": Tolerance(cosine=0.97, relative=0.3),
    "auto": Tolerance(cosine=0.999, relative=0.02),
}
"""Default tolerances, documented in docs/models.md. Each also bounds the absolute or relative error: the
cosine alone allows any error in one value among many. `auto` applies to graphs that it may prefer to fp32."""
SAME = Tolerance(absolute=0.5)
"""Default for whole numbers."""
NEAR = Tolerance(relative=0.1)
"""Default for single numbers in int8: any two of the same sign have cosine 1."""


def _default(precision: PrecisionOption, answers: Answers) -> Tolerance:
    if answers == "whole":
        return SAME
    return NEAR if answers == "numbers" and precision == "int8" else DEFAULT_TOLERANCES[precision]


def _completed(tolerance: Tolerance, default: Tolerance) -> Tolerance:
    """Return the given bounds if they limit the size of an error; otherwise add the defaults.

    A cosine or top1 bound alone would accept errors of any size.
    """
    bounds = tolerance.model_dump(include=set(Tolerance.model_fields), exclude_none=True)
    if bounds.keys() & {"absolute", "relative"}:
        return Tolerance(**bounds)
    return Tolerance(**default.model_dump(exclude_none=True) | bounds)


class ModelTolerance(Tolerance):
    """How far results may differ from the framework's, for all outputs and per output."""

    outputs: Mapping[str, Tolerance] = Field(default_factory=dict)
    """Tolerances that replace the general ones, by output name."""

    @model_validator(mode="after")
    def _each_has_a_tolerance(self) -> ModelTolerance:
        raise_violations(
            MissingKeyError.at(
                ("outputs", name), "no tolerance given", "give one of cosine, absolute, relative, and top1"
            )
            for name, tolerance in self.outputs.items()
            if tolerance.is_open
        )
        return self

    def tolerance(self, output: str, precision: PrecisionOption, answers: Answers = "vectors") -> Tolerance:
        """Return an output's tolerance: the file's, completed by the defaults of the precision."""
        return _completed(self.outputs.get(output, self), _default(precision, answers))
