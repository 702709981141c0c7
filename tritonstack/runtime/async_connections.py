"""Send requests to a server over pooled connections, from one event loop."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, TypeVar, cast

from tritonstack.runtime.connections import TritonResponse
from tritonstack.runtime.errors import TAKE_LONGER, TritonRequestError, TritonTimeoutError

MAX_IDLE = 512
"""Idle connections kept for reuse: more than any load test of one machine has users."""
MAX_HEAD = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |$)")
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")

T = TypeVar("T")


async def in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function in a daemon thread of its own, so that any number can block at once."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            result = function()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=run, name="blocking call", daemon=True).start()
    return await asyncio.wrap_future(done)


class AsyncConnectionPool:
    """Open a connection per concurrent request and keep it for reuse; `connect` opens its socket."""

    def __init__(self, *, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._idle: list[_Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def request(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> TritonResponse:
        """Send one request and return its response, within the time limit. Nothing is sent twice."""
        deadline = time.monotonic() + timeout_s
        request = request_head(method, path, headers, len(body))
        connection = self._unused() or await self._open()
        try:
            return await connection.exchange(request, body, deadline)
        except TritonTimeoutError:
            raise TritonTimeoutError(
                f"Triton did not answer {method} {path} in time", remedy=TAKE_LONGER
            ) from None
        except TritonRequestError as error:
            raise TritonRequestError(f"Triton broke off {method} {path}: {error.message}") from error
        finally:
            if not connection.reusable or self._closed or len(self._idle) >= MAX_IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    def close(self) -> None:
        """Close idle connections, from any thread."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_idle)

    async def _open(self) -> _Connection:
        self._loop = asyncio.get_running_loop()
        opened = await in_thread(self._connect)
        opened.setblocking(False)
        _, connection = await self._loop.connect_accepted_socket(lambda: _Connection(self._forget), opened)
        return connection

    def _unused(self) -> _Connection | None:
        """Take an idle connection that the server has not ended."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            connection.close()
        return None

    def _forget(self, connection: _Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


class _Connection(asyncio.Protocol):
    """One connection: at most one request at a time."""

    def __init__(self, forget: Callable[[_Connection], None]) -> None:
        self.reusable = False
        """Whether the next request can be sent on it."""
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[TritonResponse] | None = None
        self._reader: ResponseReader | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether both sides can still use it."""
        return self._transport is not None and self.reusable and not self._transport.is_closing()

    async def exchange(self, head: bytes, body: bytes, deadline: float) -> TritonResponse:
        """Send a request; raise if its response does not come in time or not whole."""
        if self._transport is None or self._transport.is_closing():
            raise TritonRequestError("the connection is closed")
        self.reusable = False
        answer: asyncio.Future[TritonResponse] = self._loop.create_future()
        self._answer = answer
        self._limit(deadline)
        self._reader = None
        if len(body) < MAX_HEAD:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        return await answer

    def close(self) -> None:
        """Close it at once."""
        self.reusable = False
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # no request is waiting
            self.close()
            return
        try:
            response = self._read(data)
        except ValueError as error:
            self._fail(TritonRequestError(str(error)))
            return
        if response is not None:
            self._settle(response)

    def eof_received(self) -> None:
        self.reusable = False
        response = self._reader.end() if self._answer is not None and self._reader is not None else None
        if response is not None:
            self._settle(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget(self)
        self._fail(TritonRequestError(repr(exc) if exc else "it closed the connection without a response"))

    def _read(self, data: bytes) -> TritonResponse | None:
        """Add received bytes; return the response when it is complete. Raise ValueError if malformed."""
        if self._reader is None:
            response = _whole_response(data)
            if response is not None:
                self.reusable = True
                return response
            self._reader = ResponseReader()
        response = self._reader.feed(data)
        self.reusable = response is not None and not self._reader.closes
        return response

    def _settle(self, response: TritonResponse) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(response)

    def _limit(self, deadline: float) -> None:
        """Expire at this time. A timer that is due earlier stays and is moved when it is due.

        Requests are many times shorter than their limits, so that hardly any needs a timer of its own.
        """
        self._deadline = deadline
        if self._timer is not None and self._timer.when() > deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._answer is None:
            return
        if self._loop.time() < self._deadline:
            self._limit(self._deadline)
        else:
            self._fail(TritonTimeoutError("no response in time"))

    def _fail(self, error: TritonRequestError) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self.close()


class ResponseHead(NamedTuple):
    """A status line and headers."""

    status: int
    headers: Mapping[str, str]
    length: int | None
    """Bytes of the body; None if its end is found in another way."""
    is_chunked: bool
    closes: bool
    """Whether the server closes the connection after this response."""


def _whole_response(data: bytes) -> TritonResponse | None:
    """Read a response that was received at once, as most are; None if a ResponseReader must read it."""
    end = data.find(b"\r\n\r\n", 0, MAX_HEAD)
    if end < 0:
        return None
    head = read_response_head(data[:end])
    if head.length is None or head.closes or head.status < 200 or len(data) != end + 4 + head.length:
        return None
    return TritonResponse(status=head.status, headers=head.headers, body=data[end + 4 :])


class ResponseReader:
    """Reads one HTTP/1.1 response piece by piece."""

    def __init__(self) -> None:
        self.closes = False
        """Whether the server closes the connection after this response, or sent more than it."""
        self._received = bytearray()
        self._head: ResponseHead | None = None
        self._chunks: list[bytes] = []

    def feed(self, data: bytes) -> TritonResponse | None:
        """Add received bytes; return the response when it is complete. Raise ValueError if malformed."""
        self._received += data
        head = self._head
        while head is None:
            head = self._next_head()
            if head is None:
                return None
            if not 100 <= head.status < 200:  # interim responses are skipped
                self._head = head
                self.closes = head.closes
            else:
                head = None
        if head.is_chunked:
            return self._read_chunks(head)
        if head.length is None or len(self._received) < head.length:
            return None
        self.closes = self.closes or len(self._received) > head.length
        return _response(head, bytes(self._received[: head.length]))

    def end(self) -> TritonResponse | None:
        """Return the response if the end of the connection is its end."""
        self.closes = True
        if self._head is None or self._head.is_chunked or self._head.length is not None:
            return None
        return _response(self._head, bytes(self._received))

    def _next_head(self) -> ResponseHead | None:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > MAX_HEAD:
                raise ValueError("the response's headers are too large")
            return None
        head = read_response_head(bytes(self._received[:end]))
        del self._received[: end + 4]
        return head

    def _read_chunks(self, head: ResponseHead) -> TritonResponse | None:
        received = self._received
        while True:
            end = received.find(b"\r\n")
            if end < 0:
                return None
            match = CHUNK_SIZE.fullmatch(bytes(received[:end]))
            if match is None:
                raise ValueError("a chunk does not begin with its size")
            size = int(match[1], 16)
            if size == 0:
                return self._read_trailer(end, head)
            if len(received) < end + 2 + size + 2:
                return None
            if received[end + 2 + size : end + 4 + size] != b"\r\n":
                raise ValueError("a chunk is longer than its declared size")
            self._chunks.append(bytes(received[end + 2 : end + 2 + size]))
            del received[: end + 4 + size]

    def _read_trailer(self, end: int, head: ResponseHead) -> TritonResponse | None:
        """Skip the trailer, which an empty line ends."""
        after = end if self._received[end : end + 4] == b"\r\n\r\n" else self._received.find(b"\r\n\r\n", end)
        if after < 0:
            return None
        self.closes = self.closes or len(self._received) > after + 4
        return _response(head, b"".join(self._chunks))


def _response(head: ResponseHead, body: bytes) -> TritonResponse:
    return TritonResponse(status=head.status, headers=head.headers, body=body)


@lru_cache(maxsize=256)
def read_response_head(text: bytes) -> ResponseHead:
    """Read a status line and headers. A server repeats them for most responses, so they are cached."""
    status_line, *lines = text.split(b"\r\n")
    match = _STATUS.match(status_line)
    if match is None:
        raise ValueError(f"invalid status line {status_line[:80]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise ValueError(f"invalid header line {line[:80]!r}")
        headers[name.lower()] = value.strip()
    is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
    return ResponseHead(
        status=int(match[2]),
        headers=MappingProxyType(headers),
        length=None if is_chunked else _length(int(match[2]), headers),
        is_chunked=is_chunked,
        closes=match[1] == b"0" or headers.get("connection", "").lower() == "close",
    )


def _length(status: int, headers: Mapping[str, str]) -> int | None:
    length = headers.get("content-length")
    if length is None:
        return 0 if status in (204, 304) else None
    if not (length.isascii() and length.isdigit()):
        raise ValueError(f"invalid Content-Length {length[:40]!r}")
    return int(length)


def request_head(method: str, path: str, headers: Mapping[str, str], length: int) -> bytes:
    """Write a request's head with the headers that `http.client` sends."""
    lines = [f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    text = "".join(lines)
    if text.count("\n") != len(lines) + 2 or "\0" in text:
        raise TritonRequestError(
            "a header contains a line break", remedy="remove line breaks and NUL characters from the headers"
        )
    return f"{text}Content-Length: {length}\r\n\r\n".encode("latin-1")
