"""Arrays to the body of InvokeEndpoint and back: Triton's binary+JSON form, on NVIDIA's tritonclient.

The body is a JSON header (names, shapes, types) with the tensors' bytes after it; SageMaker drops the HTTP
header in which Triton usually says where one ends and the other begins, so the content type carries it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput, InferResult
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, triton_to_np_dtype

from tritonstack.client.errors import MalformedReplyError, RequestEncodingError

BINARY_CONTENT_TYPE = "application/vnd.sagemaker-triton.binary+json"
JSON_CONTENT_TYPE = "application/json"
TRITON_PARAMETERS = frozenset({"sequence_id", "sequence_start", "sequence_end", "priority", "timeout"})
"""Parameters of a request that Triton acts on itself."""

Array = NDArray[Any]
Tensor = Array | Sequence[str] | Sequence[bytes]
Parameter = str | int | bool | float

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
    """Say in a content type that the JSON header takes the body's first `header_size` bytes."""
    return f"{BINARY_CONTENT_TYPE};json-header-size={header_size}"


def encode_request(
    inputs: Mapping[str, Tensor],
    *,
    outputs: Sequence[str] | None = None,
    request_id: str = "",
    parameters: Mapping[str, Parameter] | None = None,
) -> EncodedRequest:
    """Write `inputs` as a body for InvokeEndpoint; without `outputs` every output is asked for.

    Among `parameters` those of Triton itself may be: sequence_id, sequence_start, sequence_end, priority and
    timeout (in microseconds).
    """
    if not inputs:
        raise RequestEncodingError("a request needs at least one input", remedy="name the model's inputs")
    if isinstance(outputs, str):
        raise RequestEncodingError(f"outputs is the text {outputs!r}", remedy=f"write outputs=[{outputs!r}]")
    try:
        body, header_size = InferenceServerClient.generate_request_body(
            [_infer_input(name, tensor) for name, tensor in inputs.items()],
            outputs=[InferRequestedOutput(name, binary_data=True) for name in outputs] if outputs else None,
            request_id=request_id,
            **_spread(parameters or {}),
        )
    except (InferenceServerException, UnicodeError, TypeError) as refused:
        raise RequestEncodingError(f"the request cannot be written: {refused}") from refused
    return EncodedRequest(body=body, content_type=content_type_for(header_size), header_size=header_size)


def decode_reply(body: bytes, *, content_type: str) -> InferenceReply:
    """Read a reply, binary or JSON, into arrays."""
    header_size = _header_size(content_type, len(body))
    try:
        result = InferenceServerClient.parse_response_body(body, header_length=header_size)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        InferenceServerException,
    ) as fault:
        raise MalformedReplyError(f"its JSON cannot be read ({fault})") from fault
    reply = result.get_response()
    described = reply.get("outputs") if isinstance(reply, dict) else None
    if not isinstance(described, list):
        raise MalformedReplyError("it names no outputs")
    if header_size is not None:
        _check_sizes(described, payload=len(body) - header_size)
    return InferenceReply(
        outputs={str(output["name"]): _array(result, output) for output in map(_described, described)},
        model_name=str(reply.get("model_name", "")),
        model_version=str(reply.get("model_version", "")),
        request_id=str(reply.get("id", "")),
        parameters=reply.get("parameters") or {},
    )


def _spread(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Parameters as tritonclient wants them: Triton's own each by itself, those of a model together."""
    own = {name: value for name, value in parameters.items() if name in TRITON_PARAMETERS}
    others = {name: value for name, value in parameters.items() if name not in own}
    return {**own, "parameters": others or None}


def _infer_input(name: str, tensor: Tensor) -> InferInput:
    array = _native_array(name, tensor)
    datatype = np_to_triton_dtype(array.dtype)
    if datatype is None:
        raise RequestEncodingError(
            f"input {name}: Triton has no tensor type for NumPy's {array.dtype}",
            remedy="convert the array, for example with .astype(numpy.float32)",
        )
    return InferInput(name, list(array.shape), datatype).set_data_from_numpy(array, binary_data=True)


def _native_array(name: str, tensor: Tensor) -> Array:
    """Make every kind of input an array as tritonclient wants it: native byte order, strings as objects."""
    if not isinstance(tensor, np.ndarray):
        return _string_array(name, tensor)
    if tensor.dtype.kind == "U":
        return tensor.astype(np.object_)
    if tensor.dtype.kind == "O":
        _require_strings(name, tensor.ravel().tolist())
    if not tensor.dtype.isnative:
        return tensor.astype(tensor.dtype.newbyteorder("="))
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
    """Tritonclient would send str(item) of anything; a number or None there is a mistake, not a text."""
    for item in items:
        if not isinstance(item, str | bytes):
            raise RequestEncodingError(
                f"input {name}: expected only str or bytes in it, found {type(item).__name__}",
                remedy="pass numbers as a NumPy array with a numeric type, strings as a list of str",
            )


def _header_size(content_type: str, body_size: int) -> int | None:
    """Say how much of the body is JSON; None stands for all of it."""
    if content_type.split(";", maxsplit=1)[0].strip() == JSON_CONTENT_TYPE:
        return None
    match = _HEADER_SIZE.match(content_type)
    if match is None:
        raise MalformedReplyError(f"content type {content_type!r} is neither Triton's binary form nor JSON")
    size = int(match.group(1))
    if not 0 < size <= body_size:
        raise MalformedReplyError(f"it announces a JSON header of {size} bytes and has {body_size} in all")
    return size


def _described(output: object) -> dict[str, Any]:
    if not isinstance(output, dict) or not {"name", "datatype", "shape"} <= output.keys():
        raise MalformedReplyError("an output lacks name, datatype or shape")
    if triton_to_np_dtype(output["datatype"]) is None:
        raise MalformedReplyError(f"output {output['name']} has the unknown type {output['datatype']}")
    return output


def _check_sizes(described: list[Any], *, payload: int) -> None:
    """A reply cut short must not pass for a shorter tensor."""
    announced = sum(_binary_size(output) for output in described)
    if announced != payload:
        raise MalformedReplyError(f"it announces {announced} bytes of tensors and carries {payload}")


def _binary_size(output: object) -> int:
    parameters = output.get("parameters") if isinstance(output, dict) else None
    size = parameters.get("binary_data_size", 0) if isinstance(parameters, dict) else 0
    if not isinstance(size, int) or size < 0:
        raise MalformedReplyError("an output announces a size that is no number")
    return size


def _array(result: InferResult, output: Mapping[str, Any]) -> Array:
    try:
        array: Array | None = result.as_numpy(output["name"])
    except (ValueError, TypeError, KeyError, OverflowError, struct.error) as fault:
        raise MalformedReplyError(
            f"output {output['name']} does not fit its description ({fault})"
        ) from fault
    if array is None:
        raise MalformedReplyError(f"output {output['name']} has no data")
    return _as_bytes(array) if array.dtype == np.object_ else array


def _as_bytes(strings: Array) -> Array:
    """JSON replies hold strings as text, binary ones as bytes; callers see bytes in both cases."""
    flat = [item.encode() if isinstance(item, str) else item for item in strings.ravel()]
    return np.array(flat, dtype=np.object_).reshape(strings.shape)
