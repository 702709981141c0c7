"""Convert inline YAML values to arrays without silent type changes; Triton's datatypes in NumPy."""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from model_build.data import Array

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


class UnfitValuesError(ValueError):
    """The values do not form an array of the expected type."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}")
        self.message, self.remedy = message, remedy


def array_of(value: Any, datatype: str | None = None, *, allow_nan: bool = False) -> Array:
    """Convert nested lists to an array of a Triton type, default the usual type of such values.

    `allow_nan` is for float inputs, where NaN means a missing value.
    """
    leaves = list(_leaves(value))
    shape = _shape(value)
    target = datatype or _natural_type(leaves)
    if shape is None:
        raise UnfitValuesError("its lists have different lengths", "make sibling lists equally long")
    if None in leaves:
        raise UnfitValuesError("null is not a value", "write .nan for a missing number in a float input")
    if target is None:
        raise UnfitValuesError("its values have mixed types", "use numbers, strings, or booleans only")
    if target not in NUMPY_TYPES:
        raise UnfitValuesError(f"{target} values cannot be written inline", "choose another type")
    is_float = NUMPY_TYPES[target].kind == "f"
    for leaf in leaves:
        if isinstance(leaf, float) and math.isnan(leaf) and is_float:
            if allow_nan:
                continue
            raise UnfitValuesError(".nan is allowed in inputs only", "write a number; NaN equals nothing")
        if not _fits(leaf, target):
            raise UnfitValuesError(
                f"{_shown(leaf)} is not {_datatype_text(target)}", f"write {_datatype_text(target)}"
            )
    array = np.empty(shape, NUMPY_TYPES[target])
    array.reshape(-1)[:] = leaves
    return array


def with_bytes(value: Any, folder: Path) -> Any:
    """Replace `{file: ...}` and `{base64: ...}` in nested lists by the bytes that they name."""
    if isinstance(value, list | tuple):
        return [with_bytes(item, folder) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "file" in value:
        return (folder / value["file"]).read_bytes()
    return base64.b64decode(value["base64"], validate=True)


def _shown(value: Any) -> str:
    return f"a value of {len(value)} bytes" if isinstance(value, bytes) else repr(value)


def _natural_type(values: list[Any]) -> str | None:
    """Return the default type for values of a kind."""
    kinds = {type(value) for value in values}
    for allowed, datatype in (
        ({bool}, "BOOL"),
        ({int}, "INT64"),
        ({int, float}, "FP32"),
        ({str, bytes}, "BYTES"),
    ):
        if kinds <= allowed:
            return datatype
    return None


def _fits(value: Any, datatype: str) -> bool:
    """Return whether a value fits a tensor type without conversion."""
    if datatype == "BYTES":
        return isinstance(value, str | bytes)
    if datatype == "BOOL":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    dtype = NUMPY_TYPES[datatype]
    if dtype.kind == "f":
        return bool(np.isinf(value) or abs(value) <= float(np.finfo(dtype).max))
    return isinstance(value, int) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def _datatype_text(datatype: str) -> str:
    """Describe the values of a type."""
    if datatype == "BYTES":
        return "text or bytes"
    if datatype == "BOOL":
        return "true or false"
    kind = "a number" if datatype.startswith("FP") else "a whole number"
    return f"{kind} in the range of {datatype}"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from itertools.chain.from_iterable(map(_leaves, value))
    else:
        yield value


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the sizes of nested lists; None if ragged."""
    if not isinstance(value, list):
        return ()
    inner = {_shape(item) for item in value}
    if len(inner) > 1 or None in inner:
        return None
    return (len(value), *(inner.pop() or ())) if inner else (0,)
