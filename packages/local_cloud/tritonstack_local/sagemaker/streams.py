"""The event stream of InvokeEndpointWithResponseStream."""

from __future__ import annotations

import json
import logging
import struct
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from tritonstack_local.service.errors import ServiceError

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_STRING = 7
"""The type of a header value."""


def event(kind: str, payload: bytes) -> bytes:
    """Return an event whose payload is binary."""
    headers = {":event-type": kind, ":content-type": "application/octet-stream", ":message-type": "event"}
    return _message(headers, payload)


def exception(kind: str, fields: Mapping[str, str]) -> bytes:
    """Return an exception that the service model names; it ends the stream."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return _message(headers, json.dumps(fields).encode())


def _message(headers: Mapping[str, str], payload: bytes) -> bytes:
    head = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    message = b"".join((prelude, struct.pack(">I", zlib.crc32(prelude)), head, payload))
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack(f">B{len(name)}sBH", len(name), name, _STRING, len(value)) + value


_EXPLANATIONS = {
    "ModelInvocationTimeExceeded": "The model did not finish its response within the time limit.",
    "StreamBroken": "The connection to the model was closed before the end of its response.",
}

log = logging.getLogger(__name__)


def model_stream_error(code: str) -> ServiceError:
    """Return the error of a model that fails while it responds."""
    status = 504 if code == "ModelInvocationTimeExceeded" else 500
    return ServiceError("ModelStreamError", _EXPLANATIONS[code], status=status, fields={"ErrorCode": code})


async def messages(parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield a PayloadPart per part of the body, and the exception that ends it early."""
    async with aclosing(parts):
        try:
            async for part in parts:
                yield event("PayloadPart", part)
        except ServiceError as error:
            yield exception(error.code, {"Message": error.message, **error.fields})
        except Exception:
            log.exception("a response stream failed")
            yield exception("InternalStreamFailure", {"Message": "The stream failed in the local cloud."})
