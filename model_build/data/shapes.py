"""Compare the sizes of tensors, where -1 means any size."""

from __future__ import annotations

from collections.abc import Sequence


def fits_shape(shape: Sequence[int], declared: Sequence[int]) -> bool:
    """Return whether an array's sizes match a tensor's, which may leave some open."""
    return len(shape) == len(declared) and all(
        want in (-1, have) for have, want in zip(shape, declared, strict=True)
    )


def sizes_agree(first: Sequence[int], second: Sequence[int]) -> bool:
    """Return whether two tensors can have the same sizes."""
    return len(first) == len(second) and all(
        size == other or -1 in (size, other) for size, other in zip(first, second, strict=True)
    )


def common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the common sizes, -1 where they differ; None if the ranks differ."""
    if len({len(shape) for shape in shapes}) != 1:
        return None
    return tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True))
