"""Requests as Triton reads them, written by hand: the contract is about bytes, not about a library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritonstack.runtime import TritonResponse

JSON = "application/json"
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


def tensor(*values: Any, **changed: Any) -> dict[str, Any]:
    """The input `x` as JSON, one row, with some of it said otherwise."""
    return {"name": "x", "datatype": "FP32", "shape": [1, len(values)], "data": list(values), **changed}


def json_body(*inputs: dict[str, Any], **more: Any) -> bytes:
    """A request whose tensors are JSON too."""
    return json.dumps({"inputs": list(inputs), **more}).encode()


def numbers(*values: float, **more: Any) -> bytes:
    """The plainest request: one row of numbers."""
    return json_body(tensor(*values), **more)


def binary_body(
    payload: bytes, *, shape: Sequence[int], size: int | None = None, **more: Any
) -> tuple[bytes, int]:
    """A request with a JSON header and the tensor's bytes after it, and the header's size."""
    described = {
        "name": "x",
        "datatype": "FP32",
        "shape": list(shape),
        "parameters": {"binary_data_size": len(payload) if size is None else size},
    }
    header = json.dumps({"inputs": [described], **more}).encode()
    return header + payload, len(header)


def floats(*values: float) -> bytes:
    """Numbers as the bytes of an FP32 tensor."""
    return np.array(values, np.float32).tobytes()


def answered(answer: TritonResponse) -> dict[str, Any]:
    """The JSON of a good answer, which is all of it or stands before the tensors' bytes."""
    assert answer.status == 200, answer.body[:1000]
    found: dict[str, Any] = json.loads(_split(answer)[0])
    return found


def output(answer: TritonResponse, name: str = "y") -> dict[str, Any]:
    """One output of a good answer."""
    found: dict[str, Any] = {one["name"]: one for one in answered(answer)["outputs"]}[name]
    return found


def payload(answer: TritonResponse) -> bytes:
    """The bytes of the tensors in a good answer."""
    assert answer.status == 200, answer.body[:1000]
    return _split(answer)[1]


def said(answer: TritonResponse) -> str:
    """What a refusal says."""
    words: str = json.loads(answer.body)["error"]
    return words


def _split(answer: TritonResponse) -> tuple[bytes, bytes]:
    kind = answer.headers["content-type"]
    if kind == JSON:
        return answer.body, b""
    assert kind.startswith(BINARY), kind
    size = int(kind.removeprefix(BINARY))
    return answer.body[:size], answer.body[size:]
