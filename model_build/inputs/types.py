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
