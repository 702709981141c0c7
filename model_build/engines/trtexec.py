"""Build trtexec's command line for the TensorRT of a Triton release.

trtexec rejects unknown flags; this module omits them per version (see
tritonstack/files/model/tensorrt_rules.py). Flags set fp16, int8, and bf16; fp32 turns TensorFloat-32 off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model_build.errors import EngineError
from tritonstack.files.model.tensorrt import Range, TensorRT
from tritonstack.files.model.tensorrt_rules import EXPLICIT_PROFILES, PRECISION_IN_GRAPH, Version
from tritonstack.files.model.tolerance import Precision

PRECISION_FLAGS: Mapping[Precision, tuple[str, ...]] = {
    "fp32": ("--noTF32",),
    "fp16": ("--fp16",),
    "bf16": ("--bf16",),
    # Parts that are not quantized run faster in fp16 than in fp32.
    "int8": ("--int8", "--fp16"),
}
PORTABILITY_FLAGS = {
    "exact": (),
    "same-capability": ("--hardwareCompatibilityLevel=sameComputeCapability",),
    "ampere-plus": ("--hardwareCompatibilityLevel=ampere+",),
}
_SEPARATORS = ",'="


ProfileShapes = Mapping[str, Sequence[Range]]
"""The sizes of one optimization profile, by input and dimension, batch included."""


@dataclass(frozen=True, kw_only=True)
class EngineOrder:
    """An engine to build."""

    graph: Path
    version: Version
    """TensorRT's version."""
    precision: Precision
    options: TensorRT
    profiles: Sequence[ProfileShapes]
    """Empty if all sizes are fixed."""

    def flags(self) -> tuple[str, ...]:
        """Return the flags that decide the engine; equal for equal orders."""
        if self.version >= PRECISION_IN_GRAPH:
            raise EngineError(
                f"unsupported TensorRT version {_dotted(self.version)}",
                remedy="choose a supported Triton release",
            )
        return (
            *PRECISION_FLAGS[self.precision],
            f"--builderOptimizationLevel={self.options.builder_level}",
            *self._workspace(),
            *PORTABILITY_FLAGS[self.options.portability],
            *(("--versionCompatible",) if self.options.version_compatible else ()),
            *self._profiles(),
        )

    def command(self, trtexec: Path, *, plan: Path, timing_cache: Path) -> list[str]:
        """Return the full command line; the engine is built, not timed."""
        return [
            str(trtexec),
            f"--onnx={self.graph}",
            f"--saveEngine={plan}",
            *self.flags(),
            f"--timingCacheFile={timing_cache}",
            "--skipInference",
        ]

    def _workspace(self) -> Iterator[str]:
        """Return MiB without a suffix: TensorRT 8.6 accepts only a number."""
        if self.options.workspace_mib:
            yield f"--memPoolSize=workspace:{self.options.workspace_mib}"

    def _profiles(self) -> Iterator[str]:
        """Return the profile's number; a single one needs none, and TensorRT before 10 allows none."""
        if len(self.profiles) > 1 and self.version < EXPLICIT_PROFILES:
            raise EngineError(
                f"trtexec of TensorRT {_dotted(self.version)} supports one profile",
                remedy="keep one entry of `tensorrt.profiles`, or choose a later Triton release",
            )
        for number, profile in enumerate(self.profiles):
            if len(self.profiles) > 1:
                yield f"--profile={number}"
            for bound in ("min", "opt", "max"):
                shapes = (
                    _shape(name, [getattr(size, bound) for size in sizes])
                    for name, sizes in sorted(profile.items())
                )
                yield f"--{bound}Shapes={','.join(shapes)}"


def version_of_banner(text: str) -> Version | None:
    """Parse the version from `[TensorRT v8601]` or `[TensorRT v100900]`, which trtexec prints first."""
    _, marker, rest = text.partition("[TensorRT v")
    digits = rest.partition("]")[0]
    if not marker or not digits.isdigit():
        return None
    number = int(digits)
    # Minor versions have two digits; up to TensorRT 8 they had one.
    if number >= 100_000:
        return number // 10_000, number // 100 % 100, number % 100
    return number // 1000, number // 100 % 10, number % 100


def version_of_plan(text: str) -> str | None:
    """Parse the version from the output of `--getPlanVersionOnly`."""
    _, marker, rest = text.partition("Plan was created with TensorRT version ")
    return rest.split()[0] if marker else None


def _shape(name: str, sizes: Sequence[int]) -> str:
    if any(separator in name for separator in _SEPARATORS):
        raise EngineError(
            f"trtexec cannot take a shape for the input name {name!r}",
            remedy="name graph inputs with letters, digits, '.', '_' and ':'",
        )
    quoted = f"'{name}'" if ":" in name else name
    return f"{quoted}:{'x'.join(map(str, sizes))}"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
