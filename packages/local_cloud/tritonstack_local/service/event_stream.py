"""Write messages of AWS's event streams (application/vnd.amazon.eventstream)."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping

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
