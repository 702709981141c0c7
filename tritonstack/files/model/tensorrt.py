"""TensorRT options of a model: the shapes of its engine, and the hardware to build for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tritonstack.base.error_kinds import UnavailableOptionError
from tritonstack.base.yaml import Record, raise_violations

VERSION_COMPATIBLE = "--backend-config=tensorrt,version-compatible=true"
"""tritonserver option that allows the code inside a version-compatible engine."""
Size = Annotated[int, Field(ge=1, le=1_000_000)]


class Range(Record):
    """Sizes of one dimension: minimum, optimum, and maximum."""

    min: Size = 1
    opt: Size
    max: Size

    @model_validator(mode="after")
    def _ascending(self) -> Range:
        if not self.min <= self.opt <= self.max:
            raise ValueError(f"expected min <= opt <= max, got {self.min}, {self.opt}, {self.max}; sort them")
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
                "expected min <= opt <= max with the same number of dimensions; correct the three shapes"
            )
        return self


class Profile(Record):
    """One optimization profile: the shapes that the engine accepts, and the optimum."""

    batch: Range | None = None
    """The batch dimension of every input; up to batching.max_batch if not given."""
    sequence: Range | None = None
    """All other variable dimensions; up to recipe.max_length if not given."""
    shapes: Mapping[str, Shapes] = Field(default_factory=dict)
    """Shapes by input name, instead of batch and sequence."""


class TensorRT(Record):
    """How to build engines."""

    profiles: Annotated[tuple[Profile, ...], Field(min_length=1, max_length=16)] = (Profile(),)
    """Optimization profiles; use several if one is not fast enough for all shapes."""
    builder_level: Annotated[int, Field(ge=0, le=5)] = 3
    """How long TensorRT searches for fast kernels."""
    workspace_mib: Annotated[int, Field(ge=1)] | None = None
    """Maximum workspace memory of a kernel; all available memory if not given."""
    portability: Literal["exact", "same-capability", "ampere-plus"] = "exact"
    """Which GPUs can run the engine; wider portability is slower."""
    version_compatible: bool = False
    """Also run on later TensorRT versions; slower, and Triton must be configured to trust the engine."""
    capabilities: tuple[Annotated[str, Field(pattern=r"^\d+\.\d$")], ...] = ()
    """Compute capabilities for one artifact, one engine each; the target's if not given."""

    @model_validator(mode="after")
    def _one_compatibility(self) -> TensorRT:
        if self.capabilities and self.portability != "exact":
            raise_violations(
                [
                    UnavailableOptionError.at(
                        ("capabilities",),
                        "a portable engine already supports several GPUs",
                        "keep one of the two",
                    )
                ]
            )
        return self
