"""What a model asks of TensorRT: the shapes its engine is made for, and the machines that are to run it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tritonstack.base.documents import Fault, Record, refuse

VERSION_COMPATIBLE = "--backend-config=tensorrt,version-compatible=true"
"""What Triton is told so that it runs the code that a version-compatible engine brings along."""
Size = Annotated[int, Field(ge=1, le=1_000_000)]


class Range(Record):
    """The sizes of one dimension: the least, the one to be fastest at, the greatest."""

    min: Size = 1
    opt: Size
    max: Size

    @model_validator(mode="after")
    def _ascending(self) -> Range:
        if not self.min <= self.opt <= self.max:
            raise ValueError(f"{self.min}, {self.opt}, {self.max} do not ascend; write min <= opt <= max")
        return self


class Shapes(Record):
    """The shapes of one tensor, batch dimension included."""

    min: tuple[Size, ...]
    opt: tuple[Size, ...]
    max: tuple[Size, ...]

    @model_validator(mode="after")
    def _ascending(self) -> Shapes:
        if len({len(self.min), len(self.opt), len(self.max)}) != 1 or not all(
            low <= best <= high for low, best, high in zip(self.min, self.opt, self.max, strict=True)
        ):
            raise ValueError(
                "the three shapes do not ascend; give each the same number of sizes, min <= opt <= max"
            )
        return self


class Profile(Record):
    """One optimisation profile: the shapes that the engine takes, and those it is fastest at."""

    batch: Range | None = None
    """The batch dimension of every input; up to batching.max_batch if not given."""
    sequence: Range | None = None
    """Every other dimension that varies; up to recipe.max_length if not given."""
    shapes: Mapping[str, Shapes] = Field(default_factory=dict)
    """Instead of both, for inputs by name."""


class TensorRT(Record):
    """How engines are built."""

    profiles: Annotated[tuple[Profile, ...], Field(min_length=1, max_length=16)] = (Profile(),)
    """What the engine takes; several where one cannot be fast for all."""
    builder_level: Annotated[int, Field(ge=0, le=5)] = 3
    """How long TensorRT looks for fast kernels."""
    workspace_mib: Annotated[int, Field(ge=1)] | None = None
    """The most scratch memory a kernel may use; all there is if not given."""
    portability: Literal["exact", "same-capability", "ampere-plus"] = "exact"
    """Which GPUs may run the engine; the wider, the slower."""
    version_compatible: bool = False
    """Run on later TensorRT versions, too; slower, and Triton has to be told to trust the engine."""
    capabilities: tuple[Annotated[str, Field(pattern=r"^\d+\.\d$")], ...] = ()
    """Compute capabilities that one artifact is to serve, an engine for each; the target's if not given."""

    @model_validator(mode="after")
    def _one_promise(self) -> TensorRT:
        refuse(
            Fault(("capabilities",), "a portable engine serves several GPUs by itself", "keep one of the two")
            for _ in range(1)
            if self.capabilities and self.portability != "exact"
        )
        return self
