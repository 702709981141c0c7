"""Build trtexec's command line for the TensorRT of a Triton release.

trtexec rejects unknown flags; this module omits them per version (see
tritonstack/files/model/backend_rules.py). Flags set fp16, int8, and bf16; fp32 turns TensorFloat-32 off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model_build.errors import EngineError
from tritonstack.files.model.backend_rules import EXPLICIT_PROFILES, PRECISION_IN_GRAPH, Version
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tensorrt import Profile, Range, Shapes, TensorRT
from tritonstack.files.model.tolerance import Precision
from tritonstack.files.records.manifests import TensorSpec

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


def profile_shapes(spec: ModelSpec, inputs: Sequence[TensorSpec]) -> list[ProfileShapes]:
    """Return the shapes of every profile; empty if all sizes are fixed."""
    batches = spec.batching.max_batch > 0
    if not batches and not any(size < 0 for tensor in inputs for size in tensor.shape):
        return []
    profiles = (spec.tensorrt or TensorRT()).profiles
    return [_shapes(profile, spec, inputs) for profile in profiles]


def _shapes(profile: Profile, spec: ModelSpec, inputs: Sequence[TensorSpec]) -> ProfileShapes:
    unknown = sorted(set(profile.shapes) - {tensor.name for tensor in inputs})
    if unknown:
        raise EngineError(
            f"tensorrt.profiles: unknown input {', '.join(unknown)}",
            remedy=f"inputs: {', '.join(tensor.name for tensor in inputs)}",
        )
    return {
        tensor.name: list(_ranges(tensor, profile, spec))
        for tensor in inputs
        # trtexec cannot parse the shape of a scalar, and needs no fixed shapes.
        if spec.batching.max_batch or any(size < 0 for size in tensor.shape)
    }


def _ranges(tensor: TensorSpec, profile: Profile, spec: ModelSpec) -> Iterator[Range]:
    """Return the sizes of one input, per dimension."""
    max_batch = spec.batching.max_batch
    if tensor.name in profile.shapes:
        yield from _given(tensor, profile.shapes[tensor.name], batches=max_batch > 0)
        return
    if max_batch:
        # Optimize for full batches: single requests need less throughput.
        yield profile.batch or Range(opt=max_batch, max=max_batch)
    for size in tensor.shape:
        yield Range(min=size, opt=size, max=size) if size >= 0 else _varying(tensor, profile, spec)


def _varying(tensor: TensorSpec, profile: Profile, spec: ModelSpec) -> Range:
    if profile.sequence is not None:
        return profile.sequence
    longest = getattr(spec.recipe, "max_length", None)
    if longest is None:
        raise EngineError(
            f"{tensor.name} has variable sizes without bounds",
            remedy="set `tensorrt.profiles` with `sequence` or `shapes`",
        )
    return Range(opt=max(1, longest // 2), max=longest)


def _given(tensor: TensorSpec, shapes: Shapes, *, batches: bool) -> Iterator[Range]:
    dims = (-1, *tensor.shape) if batches else tensor.shape
    sizes = list(zip(shapes.min, shapes.opt, shapes.max, strict=True))
    if len(sizes) != len(dims) or any(
        fixed >= 0 and set(size) != {fixed} for fixed, size in zip(dims, sizes, strict=False)
    ):
        raise EngineError(
            f"tensorrt.profiles: {len(sizes)} sizes of {tensor.name} do not match {list(dims)}",
            remedy="give every dimension, batch first, fixed ones included",
        )
    for least, best, most in sizes:
        yield Range(min=least, opt=best, max=most)
