"""Read HTTP/1.1 replies from bytes as they arrive."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

HEAD_LIMIT = 65_536
MIN_READ, MAX_READ = 65_536, 1_048_576
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?", re.DOTALL)
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?", re.DOTALL)


class InvalidReplyError(Exception):
    """The bytes are not an HTTP/1.1 reply, or the reply ended early."""


@dataclass(frozen=True)
class HttpReply:
    """A whole reply; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reusable: bool
    """Whether the connection can carry another request."""


class ReplyReader:
    """Reads one reply: `feed` returns it whole; `add` and `take` give its body piece by piece."""

    def __init__(self) -> None:
        self.status = 0
        """0 until the reply's head is complete."""
        self.headers: dict[str, str] = {}
        self.complete = False
        self.reusable = False
        """Whether the connection can carry another request; known once the reply is complete."""
        self._buffer = bytearray()
        self._length: int | None = None
        """Bytes of the body that were not taken yet; None if its end is found in another way."""
        self._chunks: deque[bytes] | None = None
        self._last_chunk = False
        self._persistent = False

    @property
    def read_size(self) -> int:
        """How many bytes to read from the connection at once."""
        missing = (self._length or 0) - len(self._buffer)
        return min(max(missing, MIN_READ), MAX_READ)

    def feed(self, data: bytes) -> HttpReply | None:
        """Take bytes from the connection, none at its end; return the reply once it is complete."""
        if not self.add(data):
            return None
        return HttpReply(self.status, self.headers, b"".join(iter(self.take, b"")), self.reusable)

    def add(self, data: bytes) -> bool:
        """Take bytes from the connection, none at its end; return whether the reply is complete."""
        if not data:
            self._end()
        self._buffer += data
        if not self.complete and (self.status or self._read_head()):
            if self._chunks is not None:
                self._read_chunks(self._chunks)
            elif self._length is not None and len(self._buffer) >= self._length:
                self._finish(surplus=len(self._buffer) > self._length)
        return self.complete

    def take(self) -> bytes:
        """Return what has arrived of the body and was not taken yet, one chunk at a time; else nothing."""
        if not self.status:
            return b""
        if self._chunks is not None:
            return self._chunks.popleft() if self._chunks else b""
        body = bytes(memoryview(self._buffer)[: self._length])
        del self._buffer[: len(body)]
        if self._length is not None:
            self._length -= len(body)
        return body

    def _end(self) -> None:
        if not self.status:
            raise InvalidReplyError("the connection was closed before a reply")
        if self._length is not None or self._chunks is not None:
            raise InvalidReplyError("the connection was closed within the reply")
        self._finish(surplus=True)

    def _finish(self, *, surplus: bool) -> None:
        self.complete, self.reusable = True, self._persistent and not surplus

    def _read_head(self) -> bool:
        """Read the head of the reply, skipping interim replies; return whether it is complete."""
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            status_line, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
            del self._buffer[: end + 4]
            match = _STATUS_LINE.fullmatch(status_line)
            if match is None:
                raise InvalidReplyError(f"invalid status line {status_line[:80]!r}")
            status = int(match[2])
            if status >= 200:
                self.headers = _headers(lines)
                self._frame(status, persistent=match[1] == "1")
                self.status = status
                return True
        if len(self._buffer) > HEAD_LIMIT:
            raise InvalidReplyError(f"the reply's headers exceed {HEAD_LIMIT} bytes")
        return False

    def _frame(self, status: int, *, persistent: bool) -> None:
        """Find out where the body ends."""
        headers = self.headers
        self._persistent = persistent and "close" not in headers.get("connection", "").lower()
        encoding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if status in (204, 304):
            self._length = 0
        elif encoding is not None:
            if encoding.lower() != "chunked":
                raise InvalidReplyError(f"unknown transfer encoding {encoding[:80]!r}")
            self._chunks = deque()
            self._persistent = self._persistent and length is None
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise InvalidReplyError(f"invalid content length {length[:80]!r}")
            self._length = int(length)

    def _read_chunks(self, chunks: deque[bytes]) -> None:
        buffer = self._buffer
        while (end := buffer.find(b"\r\n")) >= 0:
            if self._last_chunk:  # trailers, up to an empty line
                del buffer[: end + 2]
                if end == 0:
                    return self._finish(surplus=bool(buffer))
                continue
            match = _CHUNK_SIZE.fullmatch(buffer, 0, end)
            if match is None:
                raise InvalidReplyError("invalid size of a chunk")
            size, start = int(match[1], 16), end + 2
            if size and len(buffer) < start + size + 2:
                return None
            self._last_chunk = not size
            if not size:
                del buffer[:start]
                continue
            if buffer[start + size : start + size + 2] != b"\r\n":
                raise InvalidReplyError("a chunk is longer than its size")
            chunks.append(bytes(memoryview(buffer)[start : start + size]))
            del buffer[: start + size + 2]
        if len(buffer) > HEAD_LIMIT:
            raise InvalidReplyError("invalid size of a chunk")
        return None


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise InvalidReplyError(f"invalid header {line[:80]!r}")
        key, value = name.lower(), value.strip(" \t")
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


# One HTTP/1.1 connection of an event loop.


class HttpConnection(asyncio.Protocol):
    """Carries one request at a time; its methods raise OSError and InvalidReplyError."""

    def __init__(self, *, paced: bool) -> None:
        """A paced connection reads on only when its user waits for progress."""
        self._paced = paced
        self._transport: asyncio.Transport | None = None
        self._reply: ReplyReader | None = None
        self._change: asyncio.Future[None] | None = None
        self._full: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._closed = False

    @property
    def reusable(self) -> bool:
        """Whether the next request can be sent on it."""
        return self._is_open and self._reply is not None and self._reply.reusable

    @property
    def socket(self) -> Any:
        """The open connection's socket, as asyncio shows it."""
        return None if self._transport is None else self._transport.get_extra_info("socket")

    @property
    def _is_open(self) -> bool:
        return self._transport is not None and not self._closed and not self._transport.is_closing()

    def send(self, message: bytes) -> ReplyReader:
        """Send a request, or its first part; its reply is complete after some `progress`."""
        if not self._is_open:
            raise ConnectionError("the connection is closed")
        self._reply = ReplyReader()
        self.write(message)
        return self._reply

    def write(self, data: bytes) -> None:
        """Send a further part of the request."""
        if self._transport is not None:
            self._transport.write(data)

    async def drained(self) -> None:
        """Wait until the connection takes further parts, or has ended."""
        if self._full is not None:
            await self._full

    async def progress(self) -> None:
        """Wait for a part of the reply, or for all of it; raise if it broke off."""
        if self._error is None and self._transport is not None:
            self._change = asyncio.get_running_loop().create_future()
            if self._paced:
                self._transport.resume_reading()
            await self._change
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Close it at once."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the open connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read a part of the reply."""
        self._add(data)

    def eof_received(self) -> None:
        """End the reply: the server sends no more."""
        self._add(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail a request that still waits."""
        self._end(exc or ConnectionError("it closed the connection without a response"))

    def pause_writing(self) -> None:
        """Let `drained` wait."""
        self._full = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let `drained` return."""
        _wake(self._full)
        self._full = None

    def _add(self, data: bytes) -> None:
        """Read received bytes, none at the connection's end."""
        if self._reply is None or self._reply.complete:  # no request is waiting
            self.close()
            return
        try:
            complete = self._reply.add(data)
        except InvalidReplyError as error:
            self._end(error)
            return
        if self._paced and not complete and self._transport is not None:
            self._transport.pause_reading()
        if self._paced or complete:
            _wake(self._change)

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        self.close()
        _wake(self._change)
        _wake(self._full)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
