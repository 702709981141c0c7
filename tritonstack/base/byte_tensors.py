"""Triton's tensor datatypes as NumPy types, and tensors as the raw bytes of Triton's protocol.

Imports NumPy alone, so that the client stays light.
"""

from __future__ import annotations

import importlib
import struct
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.error_kinds import MissingPackageError
from tritonstack.base.errors import TritonstackError

Array = NDArray[Any]
BYTES = "BYTES"
BF16 = "BF16"
_NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    BYTES: np.dtype(np.object_),
}
_DATATYPES = {dtype: name for name, dtype in _NUMPY_TYPES.items()}
DATATYPES = frozenset({*_NUMPY_TYPES, BF16})
_LENGTH = struct.Struct("<I")


class UnsupportedDatatypeError(TritonstackError):
    """A datatype of Triton that needs a package that is not installed."""

    code = MissingPackageError.code


def datatype_of(dtype: np.dtype[Any]) -> str | None:
    """Return Triton's name for a NumPy type, or None if Triton has no such datatype."""
    datatype = _DATATYPES.get(dtype)
    if datatype is not None:
        return datatype
    if dtype.kind == "S":
        return BYTES
    if dtype.name == "bfloat16":
        return BF16
    return _DATATYPES.get(dtype.newbyteorder("="))


def numpy_type(datatype: str) -> np.dtype[Any]:
    """Return the NumPy type for one of `DATATYPES`. BYTES is `object`; BF16 needs the package ml_dtypes."""
    if datatype != BF16:
        return _NUMPY_TYPES[datatype]
    try:
        # NumPy has no such type; the package registers one.
        bfloat16: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ModuleNotFoundError as error:
        raise UnsupportedDatatypeError(
            "tensors of type BF16 need the package ml_dtypes", remedy="run `pip install ml_dtypes`"
        ) from error
    return bfloat16


def raw_bytes(array: Array) -> memoryview:
    """Return a tensor's bytes: row-major, little-endian, each BYTES element behind its length.

    Numbers that already have that form are not copied. Raises ValueError if an element of an object array is
    neither bytes nor str.
    """
    if array.dtype.kind in "OS":
        return memoryview(join_strings(array.ravel().tolist()))
    return np.ascontiguousarray(array, dtype=_little_endian(array.dtype)).reshape(-1).view(np.uint8).data


def _little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.isnative and sys.byteorder == "little" else dtype.newbyteorder("<")


def join_strings(items: Iterable[object]) -> bytes:
    """Serialize BYTES elements: each content behind its length in 4 little-endian bytes.

    A str is sent as UTF-8. Raises ValueError if an item is neither bytes nor str.
    """
    parts: list[bytes] = []
    for item in items:
        if not isinstance(item, str | bytes):
            raise ValueError(f"expected str or bytes, got {type(item).__name__}")
        content = item.encode() if isinstance(item, str) else bytes(item)
        parts += (_LENGTH.pack(len(content)), content)
    return b"".join(parts)


def split_strings(data: bytes | memoryview, count: int) -> Array:
    """Return the `count` BYTES elements that `data` holds, as a flat array of objects.

    Raises ValueError if `data` holds more, fewer, or damaged elements.
    """
    view, size, offset = memoryview(data), len(data), 0
    if count * _LENGTH.size > size:
        raise ValueError(f"{count} elements take at least {count * _LENGTH.size} bytes, got {size}")
    strings = np.empty(count, dtype=np.object_)
    for index in range(count):
        begin = offset + _LENGTH.size
        if begin > size:
            raise ValueError(f"element {index} of {count} is missing: the data ends after {size} bytes")
        (length,) = _LENGTH.unpack_from(view, offset)
        offset = begin + length
        if offset > size:
            raise ValueError(f"element {index} has {length} bytes, but only {size - begin} follow")
        strings[index] = view[begin:offset].tobytes()
    if offset != size:
        raise ValueError(f"{size - offset} bytes follow the last of {count} elements")
    return strings
