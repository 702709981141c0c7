"""Compute the optimization profiles of engines, from model.yaml or the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model_build.engines.trtexec import ProfileShapes
from model_build.errors import EngineError
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tensorrt import Profile, Range, Shapes, TensorRT
from tritonstack.files.records.manifests import TensorSpec


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
