"""Decode the output tensors of a reply: views of its bytes, or values of its JSON, checked before use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from tritonstack.base.byte_tensors import (
    BYTES,
    DATATYPES,
    Array,
    UnsupportedDatatypeError,
    numpy_type,
    split_strings,
)
from tritonstack.client.errors import MalformedReplyError, UnsupportedReplyError

_JSON_TYPES: dict[str, frozenset[type]] = {"BOOL": frozenset({bool}), BYTES: frozenset({str})}
_JSON_INTEGER = frozenset({int})
_JSON_NUMBER = frozenset({int, float})


@dataclass(frozen=True)
class _Output:
    """One output as the JSON header describes it."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    binary_size: int | None
    """None if the values are in the JSON."""
    data: Any

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def misfit(self, reason: object) -> MalformedReplyError:
        """Return the error for values that contradict the description."""
        described = f"{self.datatype} of {list(self.shape)}"
        return MalformedReplyError(f"output {self.name} does not fit its description, {described} ({reason})")


def decode_tensors(described: Sequence[object], body: bytes, *, offset: int) -> dict[str, Array]:
    """Return the arrays that `described` names. Their bytes start at `offset` of the body, in that order."""
    outputs = [_output(item) for item in described]
    announced, carried = sum(output.binary_size or 0 for output in outputs), len(body) - offset
    if announced != carried:
        raise MalformedReplyError(f"expected {announced} bytes of tensors, got {carried}")
    arrays: dict[str, Array] = {}
    for output in outputs:
        if output.name in arrays:
            raise MalformedReplyError(f"duplicate output {output.name}")
        arrays[output.name] = _array(output, body, offset)
        offset += output.binary_size or 0
    return arrays


def _output(item: object) -> _Output:
    if not isinstance(item, dict) or not {"name", "datatype", "shape"} <= item.keys():
        raise MalformedReplyError("an output lacks name, datatype or shape")
    name, datatype, shape = item["name"], item["datatype"], item["shape"]
    if not isinstance(name, str):
        raise MalformedReplyError(f"expected the name of an output as text, got {name!r}")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise MalformedReplyError(f"output {name} has the unknown type {datatype}")
    if not isinstance(shape, list) or not all(_is_size(size) for size in shape):
        raise MalformedReplyError(f"output {name}: expected a shape of whole numbers, got {shape!r}")
    return _Output(name, datatype, tuple(shape), _binary_size(name, item), item.get("data"))


def _binary_size(name: str, item: Mapping[str, Any]) -> int | None:
    parameters = item.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise MalformedReplyError(f"output {name}: its parameters are not a JSON object")
    size = parameters.get("binary_data_size")
    if size is None:
        return None
    if not _is_size(size):
        raise MalformedReplyError(f"output {name}: the size is not a number")
    return int(size)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _array(output: _Output, body: bytes, offset: int) -> Array:
    try:
        dtype = numpy_type(output.datatype)
        if output.binary_size is None:
            flat = _from_json(output, dtype)
        elif output.datatype == BYTES:
            flat = split_strings(memoryview(body)[offset : offset + output.binary_size], output.elements)
        else:
            flat = _from_bytes(output, dtype, body, offset)
        return flat.reshape(output.shape)
    except UnsupportedDatatypeError as error:
        raise UnsupportedReplyError(f"output {output.name}: {error.message}", remedy=error.remedy) from error
    except (ValueError, OverflowError) as error:
        raise output.misfit(error) from error


def _from_bytes(output: _Output, dtype: np.dtype[Any], body: bytes, offset: int) -> Array:
    expected, size = output.elements * dtype.itemsize, output.binary_size
    if size != expected:
        raise output.misfit(f"expected {expected} bytes, got {size}")
    if not size:
        return np.empty(0, dtype)
    flat = np.frombuffer(body, dtype.newbyteorder("<"), output.elements, offset)
    if not flat.flags.aligned:  # depends on the length of the JSON; unaligned arrays are slow
        flat = np.frombuffer(body[offset : offset + expected], dtype.newbyteorder("<"))
    if output.datatype == "BOOL" and flat.view(np.uint8).max() > 1:
        raise output.misfit("expected only the bytes 0 and 1")
    return flat


def _from_json(output: _Output, dtype: np.dtype[Any]) -> Array:
    values = _flattened(output)
    allowed = _JSON_TYPES.get(output.datatype, _JSON_INTEGER if dtype.kind in "iu" else _JSON_NUMBER)
    if wrong := set(map(type, values)) - allowed:
        raise output.misfit(f"unexpected {min(kind.__name__ for kind in wrong)} in its data")
    if output.datatype == BYTES:
        strings = np.empty(len(values), dtype)
        strings[:] = [value.encode() for value in values]
        return strings
    if allowed is not _JSON_NUMBER:
        return np.array(values, dtype)
    exact = np.array(values, np.float64)
    with np.errstate(over="ignore"):
        array = exact.astype(dtype)
    if (np.isinf(array) & np.isfinite(exact)).any():
        raise output.misfit("a value is too large")
    return array


def _flattened(output: _Output) -> list[Any]:
    """Return the values of JSON data in row-major order; it may be flat, or nested as the shape says."""
    if not isinstance(output.data, list):
        raise output.misfit("it has no data")
    level = output.data
    if any(isinstance(value, list) for value in level):
        level = [level]
        for size in output.shape:
            if not all(isinstance(value, list) and len(value) == size for value in level):
                raise output.misfit("its data is nested in another way")
            level = list(chain.from_iterable(level))
    if len(level) != output.elements:
        raise output.misfit(f"expected {output.elements} values, got {len(level)}")
    return level
