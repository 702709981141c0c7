"""Reject HTTP requests with an ambiguous length or malformed chunks (status 400)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from email.message import Message
from typing import IO, TYPE_CHECKING, Any

from werkzeug.wrappers import Response

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Application = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]

Stream = IO[bytes] | io.BufferedIOBase

_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[^\r\n]*)?\r\n")
_LONGEST_LINE = 4096
_MOST_TRAILERS = 100
_SMALL = 256
_MOST_SMALL = 100_000
"""Chunks below 256 bytes; each takes a few microseconds, whatever its size."""


class MalformedBodyError(Exception):
    """The body is not framed as HTTP asks for."""


def framing_failure(headers: Message) -> str | None:
    """Return the error in the headers that set the body's length; None if they are valid."""
    lengths = headers.get_all("Content-Length", [])
    codings = [
        coding.strip().lower()
        for value in headers.get_all("Transfer-Encoding", [])
        for coding in value.split(",")
    ]
    if len(lengths) > 1:
        return f"expected one Content-Length, got {len(lengths)}"
    if lengths and not (lengths[0].isascii() and lengths[0].isdigit() and len(lengths[0]) < 20):
        return f"Content-Length is not a number of bytes: {lengths[0][:40]!r}"
    if codings and codings != ["chunked"]:
        return f"unknown Transfer-Encoding {', '.join(codings)[:40]!r}"
    if codings and lengths:
        return "expected Content-Length or Transfer-Encoding, got both"
    return None


class ChunkedBody(io.RawIOBase):
    """The content of a chunked body; raises MalformedBodyError if it is malformed."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = 0
        self._small = 0
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next piece."""
        if not self._left and not self._ended:
            self._begin_chunk()
        if self._ended:
            return 0
        data = self._stream.read(min(len(buffer), self._left))
        if not data:
            raise MalformedBodyError("the body ends within a chunk")
        buffer[: len(data)] = data
        self._left -= len(data)
        if not self._left and self._line() != b"\r\n":
            raise MalformedBodyError("a chunk is longer than its declared size")
        return len(data)

    def _begin_chunk(self) -> None:
        match = _CHUNK_SIZE.fullmatch(self._line())
        if match is None:
            raise MalformedBodyError("a chunk does not begin with its size")
        self._left = int(match[1], 16)
        self._small += self._left < _SMALL
        if self._small > _MOST_SMALL:
            raise MalformedBodyError("the body has too many small chunks")
        if self._left:
            return
        self._ended = True
        for _ in range(_MOST_TRAILERS):
            line = self._line()
            if line == b"\r\n":
                return
            if not line.endswith(b"\r\n"):
                break
        raise MalformedBodyError("the body does not end after its last chunk")

    def _line(self) -> bytes:
        return self._stream.readline(_LONGEST_LINE)


def dechunked(environ: Mapping[str, Any], stream: Stream) -> Stream:
    """Return the request body for the application."""
    chunked = environ.get("HTTP_TRANSFER_ENCODING", "").strip().lower() == "chunked"
    return io.BufferedReader(ChunkedBody(stream)) if chunked else stream


def rejecting_malformed_bodies(application: Application) -> Application:
    """Respond with 400 to a malformed body, and close the connection."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return application(environ, start_response)
        except MalformedBodyError as error:
            response = Response(f"{error}\n", 400, headers={"Connection": "close"}, content_type="text/plain")
            return response(environ, start_response)

    return answer
