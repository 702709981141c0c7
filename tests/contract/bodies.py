"""Requests as Triton reads them, written by hand: the contract is about bytes, not about a library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritonstack.triton import TritonResponse

JSON = "application/json"
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


def tensor(*values: Any, **changed: Any) -> dict[str, Any]:
    """Return the input `x` as JSON, one row, with some fields changed."""
    return {"name": "x", "datatype": "FP32", "shape": [1, len(values)], "data": list(values), **changed}


def json_body(*inputs: dict[str, Any], **more: Any) -> bytes:
    """Return a request whose tensors are JSON."""
    return json.dumps({"inputs": list(inputs), **more}).encode()


def numbers(*values: float, **more: Any) -> bytes:
    """Return the simplest request: one row of numbers."""
    return json_body(tensor(*values), **more)


def binary_body(
    payload: bytes,
    *,
    shape: Sequence[int],
    size: int | None = None,
    name: str | None = None,
    **more: Any,
) -> tuple[bytes, int]:
    """Return a request with a JSON header and the tensor's bytes, and the header's size.

    Inputs other than `x` are named after their datatype.
    """
    described = {
        "name": name or "x",
        "datatype": name or "FP32",
        "shape": list(shape),
        "parameters": {"binary_data_size": len(payload) if size is None else size},
    }
    header = json.dumps({"inputs": [described], **more}).encode()
    return header + payload, len(header)


def floats(*values: float) -> bytes:
    """Return numbers as the bytes of an FP32 tensor."""
    return np.array(values, np.float32).tobytes()


def answered(answer: TritonResponse) -> dict[str, Any]:
    """Return the JSON of a successful answer, before any binary data."""
    assert answer.status == 200, answer.body[:1000]
    reply: dict[str, Any] = json.loads(_split(answer)[0])
    return reply


def output(answer: TritonResponse, name: str = "y") -> dict[str, Any]:
    """Return one output of a successful answer."""
    tensor: dict[str, Any] = {item["name"]: item for item in answered(answer)["outputs"]}[name]
    return tensor


def payload(answer: TritonResponse) -> bytes:
    """Return the binary data of a successful answer."""
    assert answer.status == 200, answer.body[:1000]
    return _split(answer)[1]


def said(answer: TritonResponse) -> str:
    """Return the message of an error response."""
    words: str = json.loads(answer.body)["error"]
    return words


def _split(answer: TritonResponse) -> tuple[bytes, bytes]:
    kind = answer.headers["content-type"]
    if kind == JSON:
        return answer.body, b""
    assert kind.startswith(BINARY), kind
    size = int(kind.removeprefix(BINARY))
    return answer.body[:size], answer.body[size:]
