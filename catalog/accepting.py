"""What counts as right: how far a built model's answers may be from the framework's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from catalog.documents import Record

Precision = Literal["fp32", "fp16", "bf16", "int8"]
"""A number format of served weights."""
WantedPrecision = Literal["fp32", "fp16", "bf16", "int8", "auto"]
"""auto: on processors, the fastest of those that can win and are accurate enough."""


class Tolerance(Record):
    """How far one output may be from the framework's. What is not given is not looked at."""

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


DEFAULT_TOLERANCES: Mapping[Precision, Tolerance] = {
    "fp32": Tolerance(cosine=0.9999, absolute=1e-4),
    "fp16": Tolerance(cosine=0.999, relative=0.02),
    "bf16": Tolerance(cosine=0.995, relative=0.1),
    "int8": Tolerance(cosine=0.97),
}
"""What holds where model.yaml says nothing."""


class Accept(Tolerance):
    """How far the built model may be from the framework's answers, for all outputs and for single ones."""

    outputs: Mapping[str, Tolerance] = Field(default_factory=dict)
    """Instead of that, for outputs by name."""

    def tolerance(self, output: str, precision: Precision) -> Tolerance:
        """What holds for an output of a model of some precision."""
        if output in self.outputs:
            return self.outputs[output]
        return DEFAULT_TOLERANCES[precision] if self.is_open else self
