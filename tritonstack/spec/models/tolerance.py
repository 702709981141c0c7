"""What counts as right: how far a built model's answers may be from the framework's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tritonstack.base.documents import Fault, Record, refuse

Precision = Literal["fp32", "fp16", "bf16", "int8"]
"""A number format of served weights."""
WantedPrecision = Literal["fp32", "fp16", "bf16", "int8", "auto"]
"""auto: on processors, the fastest of those that can win and are accurate enough."""


class Tolerance(Record):
    """How far one output may be from the framework's. A measure without a bound is not checked."""

    cosine: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Lowest cosine similarity of any row."""
    absolute: Annotated[float, Field(gt=0)] | None = None
    """Largest difference of any value."""
    relative: Annotated[float, Field(gt=0)] | None = None
    """Largest difference of any value, as a share of the largest value of its row."""
    top1: Annotated[float, Field(ge=0, le=1)] | None = None
    """Lowest share of rows whose largest value stands in the same place."""

    @property
    def is_open(self) -> bool:
        """Whether it asks for nothing."""
        return all(bound is None for bound in (self.cosine, self.absolute, self.relative, self.top1))


Answers = Literal["vectors", "numbers", "whole"]
"""Rows of several numbers, of one, and whole numbers, which are names or places more often than amounts."""

DEFAULT_TOLERANCES: Mapping[WantedPrecision, Tolerance] = {
    "fp32": Tolerance(cosine=0.9999, absolute=1e-4),
    "fp16": Tolerance(cosine=0.999, relative=0.02),
    "bf16": Tolerance(cosine=0.995, relative=0.1),
    "int8": Tolerance(cosine=0.97, relative=0.3),
    "auto": Tolerance(cosine=0.999, relative=0.02),
}
"""Default tolerances, as docs/models.md states them. Each bounds the size of an error too: a cosine alone
allows any error of one value among many. Those of `auto` hold for the graphs that it may prefer to fp32."""
SAME = Tolerance(absolute=0.5)
"""Default for whole numbers."""
NEAR = Tolerance(relative=0.1)
"""Default for single numbers in int8: any two of one sign have the cosine 1."""


def _default(precision: WantedPrecision, answers: Answers) -> Tolerance:
    if answers == "whole":
        return SAME
    return NEAR if answers == "numbers" and precision == "int8" else DEFAULT_TOLERANCES[precision]


def _completed(written: Tolerance, default: Tolerance) -> Tolerance:
    """Written bounds if they bound the size of an error; else completed by the defaults.

    A cosine or a top1 alone would accept errors of a size that nobody has written down.
    """
    bounds = written.model_dump(include=set(Tolerance.model_fields), exclude_none=True)
    if bounds.keys() & {"absolute", "relative"}:
        return Tolerance(**bounds)
    return Tolerance(**default.model_dump(exclude_none=True) | bounds)


class Accept(Tolerance):
    """How far the built model may be from the framework's answers, for all outputs and for single ones."""

    outputs: Mapping[str, Tolerance] = Field(default_factory=dict)
    """Instead of that, for outputs by name."""

    @model_validator(mode="after")
    def _each_asks(self) -> Accept:
        refuse(
            Fault(("outputs", name), "it asks for nothing", "give one of cosine, absolute, relative and top1")
            for name, tolerance in self.outputs.items()
            if tolerance.is_open
        )
        return self

    def tolerance(self, output: str, precision: WantedPrecision, answers: Answers = "vectors") -> Tolerance:
        """What holds for an output: what model.yaml says, completed by the defaults of the precision."""
        return _completed(self.outputs.get(output, self), _default(precision, answers))
