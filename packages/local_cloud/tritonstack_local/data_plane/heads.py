"""Recognize the heads of InvokeEndpoint requests that the data plane serves.

It serves requests of one unambiguous form, which SDKs and HTTP clients send. Every other request, malformed
ones included, goes to the general server, which has its own, complete parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tritonstack_local.signatures.requests import SentRequest

MAX_HEAD = 16 * 1024
_MAX_HEADERS = 100
_PREFIX = b"POST /endpoints/"
_HEAD = re.compile(
    rb"POST (?P<target>/endpoints/(?P<endpoint>[A-Za-z0-9-]{1,63})/invocations) HTTP/1\.1"
    rb"(?P<headers>(?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[ \t]*[\t\x20-\x7e\x80-\xff]*)+)"
)
_LENGTH = re.compile(r"\d{1,9}")
_ELSEWHERE = ("transfer-encoding", "expect", "upgrade", "trailer")
"""Headers of requests that the general server parses."""


@dataclass(frozen=True)
class RequestHead:
    """The head of an InvokeEndpoint request."""

    sent: SentRequest
    endpoint: str
    headers: dict[str, str]
    """By lower-case name; none was sent twice."""
    length: int
    """Bytes of the body."""
    keep_alive: bool


def may_begin(received: bytes | bytearray) -> bool:
    """Return whether these first bytes can be the beginning of an InvokeEndpoint request."""
    return _PREFIX.startswith(received[: len(_PREFIX)])


def read_head(head: bytes) -> RequestHead | None:
    """Read a head, without the empty line that ends it; None if the general server must read it."""
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    lines = match["headers"].decode("latin-1").split("\r\n")
    pairs = []
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        value = value.strip(" \t")
        pairs.append((name, value))
        headers[name.lower()] = value
    length = headers.get("content-length", "")
    connection = headers.get("connection", "keep-alive").lower()
    if (
        len(headers) < len(pairs)
        or len(pairs) > _MAX_HEADERS
        or _LENGTH.fullmatch(length) is None
        or connection not in ("keep-alive", "close")
        or not headers.keys().isdisjoint(_ELSEWHERE)
    ):
        return None
    sent = SentRequest("POST", match["target"].decode("ascii"), tuple(pairs))
    return RequestHead(
        sent, match["endpoint"].decode("ascii"), headers, int(length), connection == "keep-alive"
    )
