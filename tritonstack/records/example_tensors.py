"""Convert example tensors to arrays and back, exactly and compactly."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.byte_tensors import BYTES, datatype_of, numpy_type, raw_bytes, split_strings
from tritonstack.base.error_kinds import ArtifactNotFoundError
from tritonstack.records.examples import ExampleTensor, Value

Array = NDArray[Any]
MOST_VALUES = 1024
"""Maximum number of values written as text for reviewers."""
MOST_BYTES = 64 << 20
"""Maximum unpacked size of texts: Triton's request limit."""
_UNREADABLE = (ValueError, TypeError, OverflowError, zlib.error, binascii.Error)


def tensor_of(name: str, array: Array) -> ExampleTensor:
    """Convert an array to an example tensor."""
    texts = array.astype(np.object_) if array.dtype.kind in "US" else array
    datatype = datatype_of(texts.dtype)
    if datatype is None:
        raise ArtifactNotFoundError(
            f"{name}: Triton has no datatype for NumPy's {array.dtype}",
            remedy="convert the array to a numeric, bool, or string type, such as float32",
        )
    values = _texts(texts) if datatype == BYTES else _numbers(texts)
    return ExampleTensor(
        name=name,
        datatype=datatype,
        shape=texts.shape,
        values=values,
        packed=_packed(texts) if values is None else None,
    )


def array_of(tensor: ExampleTensor) -> Array:
    """Convert an example tensor to an array; texts become bytes, as in Triton's responses."""
    dtype = numpy_type(tensor.datatype)
    try:
        flat = _unpacked(tensor, dtype) if tensor.values is None else _filled(tensor.values, dtype)
        return flat.reshape(tensor.shape)
    except _UNREADABLE as error:
        raise ArtifactNotFoundError(
            f"invalid example tensor {tensor.name} ({tensor.datatype} {list(tensor.shape)}): {error}",
            remedy="rebuild the model with `tritonstack build`",
        ) from error


def _texts(array: Array) -> tuple[Value, ...] | None:
    """Return texts; None if any value is not text, such as image bytes."""
    if array.size > MOST_VALUES:
        return None
    try:
        return tuple(item.decode() if isinstance(item, bytes) else str(item) for item in array.flat)
    except UnicodeDecodeError:
        return None


def _numbers(array: Array) -> tuple[Value, ...] | None:
    """Return numbers with the fewest digits that identify them; None if JSON cannot represent one."""
    if array.size > MOST_VALUES or not np.isfinite(array).all():
        return None
    if array.dtype.kind == "f":
        return tuple(float(str(number)) for number in array.flat)
    return tuple(array.ravel().tolist())


def _packed(array: Array) -> str:
    return base64.b64encode(zlib.compress(raw_bytes(array), level=9)).decode()


def _filled(values: tuple[Value, ...], dtype: np.dtype[Any]) -> Array:
    if dtype == np.object_:
        return np.array([str(value).encode() for value in values], dtype=np.object_)
    return np.array(values, dtype=dtype)


def _unpacked(tensor: ExampleTensor, dtype: np.dtype[Any]) -> Array:
    is_text = dtype == np.object_
    limit = MOST_BYTES if is_text else dtype.itemsize * math.prod(tensor.shape)
    unpacking = zlib.decompressobj()
    raw = unpacking.decompress(base64.b64decode(tensor.packed or "", validate=True), limit + 1)
    if len(raw) > limit or not unpacking.eof:
        raise ValueError(f"expected {limit} unpacked bytes, got another size")
    if is_text:
        return split_strings(raw, math.prod(tensor.shape))
    return np.frombuffer(raw, dtype=dtype.newbyteorder("<")).astype(dtype)
