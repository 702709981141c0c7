"""Read the responses of a decoupled model from SageMaker's payload parts, while they arrive.

With SAGEMAKER_TRITON_INFERENCE_TYPE=generate_stream, Triton sends one server-sent event per response, such as
`data: {"model_name":"writer","model_version":"1","text_output":" upon"}`. A part may hold several events, or
a piece of one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.client.errors import MalformedReplyError, RequestEncodingError

Array = NDArray[Any]

EVENTS = "text/event-stream"
TEXT_OUT = "text_output"
_ABOUT_THE_MODEL = ("model_name", "model_version")


def read_responses(parts: Iterable[bytes], *, content_type: str) -> Iterator[Mapping[str, Any]]:
    """Yield each response as parsed JSON; a whole JSON document is one response."""
    if not content_type.startswith(EVENTS):
        yield _parsed(b"".join(parts))
        return
    for data in _event_data(parts):
        yield _parsed(data)


def flat_inputs(inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Return the inputs of `stream_responses` for arrays: flat lists, whose shapes Triton restores."""
    return {name: _flat(name, array) for name, array in inputs.items()}


def outputs_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a response, without the name and version of the model."""
    return {name: value for name, value in response.items() if name not in _ABOUT_THE_MODEL}


def response_array(value: Any, *, like: Array) -> Array:
    """Return one output of a response as an array of a type, and of its shape if it has as many values."""
    values = value if isinstance(value, list) else [value]
    if like.dtype == np.object_:
        values = [str(item).encode() for item in values]
    array = np.empty(len(values), like.dtype)
    array[:] = values
    return array.reshape(like.shape) if array.size == like.size else array


def text_of(response: Mapping[str, Any]) -> str:
    """Return the text of a language model's response."""
    text = response.get(TEXT_OUT)
    if not isinstance(text, str):
        raise MalformedReplyError(f"{TEXT_OUT} is missing")
    return text


def _flat(name: str, array: Array) -> list[Any]:
    values: list[Any] = array.ravel().tolist()
    try:
        values = [value.decode() if isinstance(value, bytes) else value for value in values]
        json.dumps(values, allow_nan=False)
    except (UnicodeDecodeError, TypeError, ValueError) as error:
        raise RequestEncodingError(
            f"{name} cannot be written as JSON, which decoupled models take: {error}",
            remedy="send finite numbers, booleans, and UTF-8 text; encode bytes, for example with base64",
        ) from error
    return values


def _event_data(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of each server-sent event."""
    received = b""
    for part in parts:
        received += part
        *lines, received = received.split(b"\n")
        for line in lines:
            # Triton writes an event's data in one line; an empty line ends it.
            if line.startswith(b"data:"):
                yield line.removeprefix(b"data:")
    if received.strip():
        raise MalformedReplyError("the response ends within an event")


def _parsed(data: bytes) -> Mapping[str, Any]:
    try:
        response: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedReplyError(f"invalid JSON ({error})") from error
    if not isinstance(response, dict):
        raise MalformedReplyError(f"expected a JSON object, got {type(response).__name__}")
    return response
