"""Read the heads of requests, and recognize those that the data plane serves.

It serves InvokeEndpoint and its streaming form, in one unambiguous form, which SDKs and HTTP clients send.
Every other request goes to the general server, unless its head is malformed.
"""

from __future__ import annotations

import io
import re
from functools import lru_cache
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from typing import NamedTuple
from urllib.parse import urlsplit

from tritonstack_local.access.framing import framing_failure
from tritonstack_local.access.requests import SentRequest

MAX_HEAD = 16 * 1024
MAX_OTHER_HEAD = 128 * 1024
_LONGEST_LINE = 64 * 1024
_END = re.compile(rb"\n\r?\n")
_MAX_HEADERS = 100
_PREFIX = b"POST /endpoints/"
_REQUEST_LINE = re.compile(
    r"POST (?P<target>/endpoints/(?P<endpoint>[A-Za-z0-9-]{1,63})"
    r"/invocations(?P<streams>-response-stream)?) HTTP/1\.1"
)
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TEXT = bytes((0x09, *range(0x20, 0x7F), *range(0x80, 0x100)))
"""The bytes that a header may contain."""
_LENGTH = re.compile(r"\d{1,9}")
_CONNECTIONS = ("keep-alive", "close")
_CONTINUE = "100-continue"
_ELSEWHERE = frozenset(("transfer-encoding", "upgrade", "trailer"))
"""Headers of requests that the general server parses."""


class MalformedHeadError(Exception):
    """A head that no server reads."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestHead(NamedTuple):
    """The head of a request."""

    sent: SentRequest
    endpoint: str
    streams: bool
    """Whether it is InvokeEndpointWithResponseStream."""
    headers: dict[str, str]
    """By lower-case name; none was sent twice."""
    length: int
    """Bytes of the body."""
    keep_alive: bool
    awaits_continue: bool
    """Whether its client waits to be asked for the body."""


class OtherHead(NamedTuple):
    """The head of a request to the general server."""

    sent: SentRequest
    length: int
    """Bytes of the body to receive before the request is handed over."""
    announced: int | None
    """Bytes of the body; None for a chunked one."""


def read_other_head(received: bytes | bytearray) -> tuple[OtherHead, int] | None:
    """Read the head of any request; return it with its size, or None if it is incomplete.

    Raises MalformedHeadError.
    """
    match = _END.search(received)
    if (match.end() if match else len(received)) > MAX_OTHER_HEAD:
        raise MalformedHeadError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head exceeds {MAX_OTHER_HEAD} bytes"
        )
    if match is None:
        return None
    end = match.end()
    line, _, rest = bytes(received[:end]).partition(b"\n")
    if len(line) > _LONGEST_LINE:
        raise MalformedHeadError(HTTPStatus.REQUEST_URI_TOO_LONG, f"the target exceeds {_LONGEST_LINE} bytes")
    words = line.decode("latin-1").split()
    if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise MalformedHeadError(HTTPStatus.BAD_REQUEST, "expected a method, a target, and HTTP/1.1")
    try:
        urlsplit(words[1])
        headers = parse_headers(io.BytesIO(rest))
    except ValueError as error:
        raise MalformedHeadError(HTTPStatus.BAD_REQUEST, f"invalid target: {error}") from error
    except HTTPException as error:
        raise MalformedHeadError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error)) from error
    failure = framing_failure(headers)
    if failure is not None:
        raise MalformedHeadError(HTTPStatus.BAD_REQUEST, failure)
    announced = None if "Transfer-Encoding" in headers else int(headers.get("Content-Length", "0"))
    # A client that waits to be asked for its body is asked by the general server.
    length = 0 if announced is None or "Expect" in headers else announced
    return OtherHead(SentRequest(words[0], words[1], tuple(headers.items())), length, announced), end


def may_begin(received: bytes | bytearray) -> bool:
    """Return whether these first bytes can be the beginning of such a request."""
    return _PREFIX.startswith(received[: len(_PREFIX)])


def read_head(head: bytes) -> RequestHead | None:
    """Read a head, without the empty line that ends it; None if the general server must read it."""
    request_line, *lines = head.decode("latin-1").split("\r\n")
    target = _REQUEST_LINE.fullmatch(request_line)
    headers: dict[str, str] = {}
    pairs = []
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        pairs.append((name, value))
        headers[_lower_name(name) if colon else ""] = value
    length = headers.get("content-length", "")
    connection = headers.get("connection", "keep-alive").lower()
    if (
        target is None
        or "" in headers
        or head.translate(None, _TEXT) != b"\r\n" * len(pairs)
        or not len(headers) == len(pairs) <= _MAX_HEADERS
        or not _ELSEWHERE.isdisjoint(headers)
        or _LENGTH.fullmatch(length) is None
        or connection not in _CONNECTIONS
        or headers.get("expect", _CONTINUE) != _CONTINUE
    ):
        return None
    sent = SentRequest("POST", target["target"], tuple(pairs))
    is_stream, keeps = target["streams"] is not None, connection == "keep-alive"
    awaits_continue = "expect" in headers
    return RequestHead(sent, target["endpoint"], is_stream, headers, int(length), keeps, awaits_continue)


@lru_cache(maxsize=1024)
def _lower_name(name: str) -> str:
    """Return a header name in lower case; empty if it is not a valid name."""
    return name.lower() if _NAME.fullmatch(name) else ""
