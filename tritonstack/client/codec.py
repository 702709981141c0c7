"""Encode arrays as the body of InvokeEndpoint and decode its reply: Triton's binary+JSON form.

The body is a JSON header (names, shapes, datatypes) followed by the tensors' bytes. SageMaker drops the HTTP
header in which Triton usually states the size of the JSON, so the content type carries it.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.byte_tensors import datatype_of, raw_bytes
from tritonstack.client.classification import TopClasses
from tritonstack.client.errors import MalformedReplyError, RequestEncodingError
from tritonstack.client.tensor_decoding import decode_tensors

BINARY_CONTENT_TYPE = "application/vnd.sagemaker-triton.binary+json"
JSON_CONTENT_TYPE = "application/json"
TRITON_PARAMETERS = frozenset({"sequence_id", "sequence_start", "sequence_end", "priority", "timeout"})
"""Parameters of a request that Triton itself interprets."""
RESERVED_PARAMETERS = frozenset({"headers", "binary_data_output"})
RESERVED_PREFIX = "triton_"

Array = NDArray[Any]
Tensor = Array | Sequence[str] | Sequence[bytes]
Parameter = str | int | bool | float

_JSON = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_ALL_OUTPUTS = '"parameters":{"binary_data_output":true}'
_HEADER_SIZE = re.compile(re.escape(BINARY_CONTENT_TYPE) + r";\s*json-header-size=([0-9]{1,18})\s*$")


@dataclass(frozen=True)
class EncodedRequest:
    """A body for InvokeEndpoint and the content type that says how to read it."""

    body: bytes = field(repr=False)
    content_type: str
    header_size: int


@dataclass(frozen=True)
class InferenceReply:
    """What Triton answered. Arrays are read-only views of the reply; strings are bytes in object arrays."""

    outputs: Mapping[str, Array]
    model_name: str
    model_version: str
    request_id: str
    parameters: Mapping[str, Parameter]


def content_type_for(header_size: int) -> str:
    """Return the content type of a body whose first `header_size` bytes are the JSON header."""
    return f"{BINARY_CONTENT_TYPE};json-header-size={header_size}"


def encode_request(
    inputs: Mapping[str, Tensor],
    *,
    outputs: Sequence[str | TopClasses] | None = None,
    request_id: str = "",
    parameters: Mapping[str, Parameter] | None = None,
) -> EncodedRequest:
    """Write `inputs` as a body for InvokeEndpoint; without `outputs` every output is requested.

    `parameters` may include those of Triton itself: sequence_id, sequence_start, sequence_end, priority and
    timeout (in microseconds).
    """
    if not inputs:
        raise RequestEncodingError("a request needs at least one input", remedy="name the model's inputs")
    if isinstance(outputs, str):
        raise RequestEncodingError(f"outputs is the text {outputs!r}", remedy=f"write outputs=[{outputs!r}]")
    try:
        tensors = [_described_input(name, tensor) for name, tensor in inputs.items()]
        described = ",".join(text for text, _ in tensors)
        settings = _settings(outputs or (), request_id, parameters or {})
        header = f'{{"inputs":[{described}],{settings}}}'.encode("ascii")
    except (UnicodeError, TypeError, ValueError, struct.error) as error:
        raise RequestEncodingError(
            f"cannot encode the request: {error}",
            remedy="use ASCII names, NumPy arrays as inputs, and JSON values as parameters",
        ) from error
    body = b"".join((header, *(data for _, data in tensors)))
    return EncodedRequest(body=body, content_type=content_type_for(len(header)), header_size=len(header))


def decode_reply(body: bytes, *, content_type: str) -> InferenceReply:
    """Read a reply, binary or JSON, into arrays."""
    header_size = _header_size(content_type, len(body))
    try:
        reply = json.loads(str(memoryview(body)[:header_size], "utf-8"))
    except (ValueError, RecursionError) as error:
        raise MalformedReplyError(f"invalid JSON ({error})") from error
    described = reply.get("outputs") if isinstance(reply, dict) else None
    if not isinstance(described, list):
        raise MalformedReplyError("outputs are missing")
    parameters = reply.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise MalformedReplyError("parameters are not a JSON object")
    return InferenceReply(
        outputs=decode_tensors(described, body, offset=len(body) if header_size is None else header_size),
        model_name=str(reply.get("model_name", "")),
        model_version=str(reply.get("model_version", "")),
        request_id=str(reply.get("id", "")),
        parameters=parameters,
    )


def _settings(
    outputs: Sequence[str | TopClasses], request_id: str, parameters: Mapping[str, Parameter]
) -> str:
    """Return the fields of the JSON header beside the inputs."""
    if not (outputs or request_id or parameters):
        return _ALL_OUTPUTS
    fields: dict[str, Any] = {"id": request_id} if request_id else {}
    request_parameters = _parameters(parameters)
    if outputs:
        fields["outputs"] = [_requested_output(output) for output in outputs]
    else:
        request_parameters["binary_data_output"] = True
    if request_parameters:
        fields["parameters"] = request_parameters
    return _JSON.encode(fields)[1:-1]


def _parameters(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the parameters to send; Triton's own are omitted at their default values."""
    request_parameters: dict[str, Any] = {}
    for name, value in parameters.items():
        if name in RESERVED_PARAMETERS or name.startswith(RESERVED_PREFIX):
            raise RequestEncodingError(
                f"the parameter {name!r} is reserved for Triton", remedy="rename or remove it"
            )
        if name not in TRITON_PARAMETERS:
            request_parameters[name] = value
    if parameters.get("sequence_id") not in (None, 0, ""):
        request_parameters["sequence_id"] = parameters["sequence_id"]
        request_parameters["sequence_start"] = parameters.get("sequence_start", False)
        request_parameters["sequence_end"] = parameters.get("sequence_end", False)
    if parameters.get("priority"):
        request_parameters["priority"] = parameters["priority"]
    if parameters.get("timeout") is not None:
        request_parameters["timeout"] = parameters["timeout"]
    return request_parameters


def _requested_output(output: str | TopClasses) -> dict[str, Any]:
    if isinstance(output, TopClasses):
        if isinstance(output.count, bool) or not isinstance(output.count, int) or output.count < 1:
            raise RequestEncodingError(
                f"output {output.output}: expected a count of classes of at least 1, got {output.count!r}",
                remedy=f"write TopClasses({output.output!r}, count=3)",
            )
        return {"name": output.output, "parameters": {"classification": output.count, "binary_data": True}}
    if not isinstance(output, str):
        raise RequestEncodingError(
            f"expected the name of an output, got {type(output).__name__}",
            remedy="name each output as a str or as TopClasses(name, count)",
        )
    return {"name": output, "parameters": {"binary_data": True}}


def _described_input(name: str, tensor: Tensor) -> tuple[str, memoryview]:
    """Return an input's entry in the JSON header, and its bytes."""
    if not isinstance(name, str):
        raise RequestEncodingError(
            f"expected the name of an input as str, got {name!r}", remedy="pass a mapping of names to tensors"
        )
    array = _as_array(name, tensor)
    datatype = datatype_of(array.dtype)
    if datatype is None:
        raise RequestEncodingError(
            f"input {name}: Triton has no tensor type for NumPy's {array.dtype}",
            remedy="convert the array, for example with .astype(numpy.float32)",
        )
    data = raw_bytes(array)
    # Formatted here: a JSON encoder takes longer than the rest of encoding a small request.
    described = (
        f'{{"name":{_quoted(name)},"shape":{list(array.shape)},"datatype":"{datatype}",'
        f'"parameters":{{"binary_data_size":{len(data)}}}}}'
    )
    return described, data


def _as_array(name: str, tensor: Tensor) -> Array:
    """Return an input as an array, strings in one of objects."""
    if not isinstance(tensor, np.ndarray):
        return _string_array(name, tensor)
    if tensor.dtype.kind == "U":
        return tensor.astype(np.object_)
    if tensor.dtype.kind == "O":
        _require_strings(name, tensor.ravel().tolist())
    return tensor


def _string_array(name: str, tensor: Sequence[str] | Sequence[bytes]) -> Array:
    if isinstance(tensor, str | bytes) or not isinstance(tensor, Sequence):
        raise RequestEncodingError(
            f"input {name}: expected a NumPy array or a list of strings, got {type(tensor).__name__}",
            remedy="put a single string into a list; pass numbers as numpy.array(..., dtype=...)",
        )
    _require_strings(name, tensor)
    return np.array(tensor, dtype=np.object_)


def _require_strings(name: str, items: Sequence[object]) -> None:
    """Reject items that are not strings: a number or None among them is a mistake."""
    for item in items:
        if not isinstance(item, str | bytes):
            raise RequestEncodingError(
                f"input {name}: expected only str or bytes in it, found {type(item).__name__}",
                remedy="pass numbers as a NumPy array with a numeric type, strings as a list of str",
            )


def _header_size(content_type: str, body_size: int) -> int | None:
    """Return the size of the JSON header; None if the whole body is JSON."""
    if content_type.split(";", maxsplit=1)[0].strip() == JSON_CONTENT_TYPE:
        return None
    match = _HEADER_SIZE.match(content_type)
    if match is None:
        raise MalformedReplyError(f"content type {content_type!r} is neither Triton's binary form nor JSON")
    size = int(match.group(1))
    if not 0 < size <= body_size:
        raise MalformedReplyError(f"expected a JSON header of {size} bytes, got {body_size} bytes in all")
    return size
