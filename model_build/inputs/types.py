"""Map Triton's datatypes to NumPy's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NUMPY_TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "BOOL": np.dtype(np.bool_),
        **{f"INT{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
        **{f"UINT{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
        **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
        "BYTES": np.dtype(np.object_),
    }
)
"""Without BF16, which NumPy lacks."""
TRITON_TYPES: Mapping[np.dtype[Any], str] = MappingProxyType(
    {dtype: name for name, dtype in NUMPY_TYPES.items()}
)


def datatype_of(array: Array) -> str | None:
    """Return Triton's name for an array's type; None if it has none."""
    return "BYTES" if array.dtype.kind in "US" else TRITON_TYPES.get(array.dtype)


def fits_shape(shape: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    """Return whether an array's sizes match a tensor's, where -1 means any."""
    return len(shape) == len(declared) and all(
        want in (-1, have) for have, want in zip(shape, declared, strict=True)
    )


def common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the common sizes, -1 where they differ; None if the ranks differ."""
    if len({len(shape) for shape in shapes}) != 1:
        return None
    return tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True))
