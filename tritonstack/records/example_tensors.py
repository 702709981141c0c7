"""Tensors of examples as arrays and back: each value exactly, in as few bytes as it takes."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.byte_tensors import BYTES, datatype_of, numpy_type, raw_bytes, split_strings
from tritonstack.base.errors import TritonstackError
from tritonstack.records.examples import ExampleTensor, Value

Array = NDArray[Any]
MOST_VALUES = 1024
"""A reviewer reads these; of more, nobody reads any."""
MOST_BYTES = 64 << 20
"""What packed texts may unpack to: Triton takes no larger request."""
_UNREADABLE = (ValueError, TypeError, OverflowError, zlib.error, binascii.Error)


class ExampleTensorError(TritonstackError):
    """A tensor that is not what it says it is, or that Triton has no type for."""


def tensor_of(name: str, array: Array) -> ExampleTensor:
    """An array as an example has it."""
    texts = array.astype(np.object_) if array.dtype.kind in "US" else array
    datatype = datatype_of(texts.dtype)
    if datatype is None:
        raise ExampleTensorError(f"{name}: Triton has no tensor type for NumPy's {array.dtype}")
    values = _texts(texts) if datatype == BYTES else _numbers(texts)
    return ExampleTensor(
        name=name,
        datatype=datatype,
        shape=texts.shape,
        values=values,
        packed=_packed(texts) if values is None else None,
    )


def array_of(tensor: ExampleTensor) -> Array:
    """The array that an example's tensor stands for; texts as bytes, as Triton answers them."""
    dtype = numpy_type(tensor.datatype)
    try:
        flat = _unpacked(tensor, dtype) if tensor.values is None else _filled(tensor.values, dtype)
        return flat.reshape(tensor.shape)
    except _UNREADABLE as error:
        raise ExampleTensorError(
            f"the example's {tensor.name} is no {tensor.datatype} of {list(tensor.shape)}: {error}",
            remedy="build the model again with `tritonstack build`",
        ) from error


def _texts(array: Array) -> tuple[Value, ...] | None:
    """Texts as texts; None where there is one that is none, such as an image's bytes."""
    if array.size > MOST_VALUES:
        return None
    try:
        return tuple(item.decode() if isinstance(item, bytes) else str(item) for item in array.flat)
    except UnicodeDecodeError:
        return None


def _numbers(array: Array) -> tuple[Value, ...] | None:
    """Numbers in the fewest digits that tell each from its neighbours; None where JSON cannot write one."""
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
        raise ValueError(f"it unpacks to other than {limit} bytes")
    if is_text:
        return split_strings(raw, math.prod(tensor.shape))
    return np.frombuffer(raw, dtype=dtype.newbyteorder("<")).astype(dtype)
