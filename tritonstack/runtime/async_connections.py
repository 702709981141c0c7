"""Send requests to a server over pooled connections, from one event loop."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar, cast

from tritonstack.runtime.connections import TritonResponse
from tritonstack.runtime.errors import TAKE_LONGER, TritonRequestError, TritonTimeoutError

MAX_IDLE = 512
"""Idle connections kept for reuse: more than any load test of one machine has users."""
_MAX_HEAD = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |$)")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")

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
        request = _request_head(method, path, headers, len(body))
        connection = self._idle.pop() if self._idle else await self._open()
        try:
            response = await connection.exchange(request, body, deadline - time.monotonic())
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
        return response

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

    def _forget(self, connection: _Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


class _Connection(asyncio.Protocol):
    """One connection: at most one request at a time."""

    def __init__(self, forget: Callable[[_Connection], None]) -> None:
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[TritonResponse] | None = None
        self._reader = ResponseReader()

    @property
    def reusable(self) -> bool:
        """Whether the next request can be sent on it."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._answer is None
            and not self._reader.closes
        )

    async def exchange(self, head: bytes, body: bytes, timeout_s: float) -> TritonResponse:
        """Send a request; raise if its response does not come in time or not whole."""
        if self._transport is None or self._transport.is_closing():
            raise TritonRequestError("the connection is closed")
        answer: asyncio.Future[TritonResponse] = self._loop.create_future()
        self._answer = answer
        timer = self._loop.call_later(max(0.0, timeout_s), self._expire)
        self._reader = ResponseReader()
        if len(body) < _MAX_HEAD:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        try:
            return await answer
        finally:
            timer.cancel()

    def close(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # no request is waiting
            self.close()
            return
        try:
            response = self._reader.feed(data)
        except ValueError as error:
            self._fail(TritonRequestError(str(error)))
            return
        if response is not None:
            self._settle(response)

    def eof_received(self) -> None:
        response = self._reader.end() if self._answer is not None else None
        if response is not None:
            self._settle(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget(self)
        self._fail(TritonRequestError(repr(exc) if exc else "it closed the connection without a response"))

    def _settle(self, response: TritonResponse) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(response)

    def _expire(self) -> None:
        self._fail(TritonTimeoutError("no response in time"))

    def _fail(self, error: TritonRequestError) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self.close()


class ResponseReader:
    """Reads one HTTP/1.1 response piece by piece."""

    def __init__(self) -> None:
        self.closes = False
        """Whether the server closes the connection after this response, or sent more than it."""
        self._received = bytearray()
        self._status = 0
        self._headers: dict[str, str] | None = None
        self._length: int | None = None
        self._chunks: list[bytes] | None = None

    def feed(self, data: bytes) -> TritonResponse | None:
        """Add received bytes; return the response when it is complete. Raise ValueError if malformed."""
        self._received += data
        while self._headers is None:
            if not self._read_head():
                return None
        if self._chunks is not None:
            return self._read_chunks(self._chunks)
        if self._length is None or len(self._received) < self._length:
            return None
        body = bytes(self._received[: self._length])
        self.closes = self.closes or len(self._received) > self._length
        return self._response(body)

    def end(self) -> TritonResponse | None:
        """Return the response if the end of the connection is its end."""
        self.closes = True
        if self._headers is None or self._chunks is not None or self._length is not None:
            return None
        return self._response(bytes(self._received))

    def _response(self, body: bytes) -> TritonResponse:
        return TritonResponse(status=self._status, headers=self._headers or {}, body=body)

    def _read_head(self) -> bool:
        """Read the status line and the headers, if they are complete; skip interim responses."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > _MAX_HEAD:
                raise ValueError("the response's headers are too large")
            return False
        status_line, *lines = bytes(self._received[:end]).split(b"\r\n")
        del self._received[: end + 4]
        match = _STATUS.match(status_line)
        if match is None:
            raise ValueError(f"invalid status line {status_line[:80]!r}")
        self._status = int(match[2])
        if 100 <= self._status < 200:
            return True
        headers = {}
        for line in lines:
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon:
                raise ValueError(f"invalid header line {line[:80]!r}")
            headers[name.lower()] = value.strip()
        self._headers = headers
        self.closes = match[1] == b"0" or headers.get("connection", "").lower() == "close"
        self._read_framing(headers)
        return True

    def _read_framing(self, headers: Mapping[str, str]) -> None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunks = []
        elif "content-length" in headers:
            length = headers["content-length"]
            if not (length.isascii() and length.isdigit()):
                raise ValueError(f"invalid Content-Length {length[:40]!r}")
            self._length = int(length)
        elif self._status in (204, 304):
            self._length = 0

    def _read_chunks(self, chunks: list[bytes]) -> TritonResponse | None:
        received = self._received
        while True:
            end = received.find(b"\r\n")
            if end < 0:
                return None
            match = _CHUNK_SIZE.fullmatch(bytes(received[:end]))
            if match is None:
                raise ValueError("a chunk does not begin with its size")
            size = int(match[1], 16)
            if size == 0:
                return self._read_trailer(end, chunks)
            if len(received) < end + 2 + size + 2:
                return None
            if received[end + 2 + size : end + 4 + size] != b"\r\n":
                raise ValueError("a chunk is longer than its declared size")
            chunks.append(bytes(received[end + 2 : end + 2 + size]))
            del received[: end + 4 + size]

    def _read_trailer(self, end: int, chunks: list[bytes]) -> TritonResponse | None:
        """Skip the trailer, which an empty line ends."""
        after = end if self._received[end : end + 4] == b"\r\n\r\n" else self._received.find(b"\r\n\r\n", end)
        if after < 0:
            return None
        self.closes = self.closes or len(self._received) > after + 4
        return self._response(b"".join(chunks))


def _request_head(method: str, path: str, headers: Mapping[str, str], length: int) -> bytes:
    """Write a request's head with the headers that `http.client` sends."""
    lines = [f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    text = "".join(lines)
    if text.count("\n") != len(lines) + 2 or "\0" in text:
        raise TritonRequestError(
            "a header contains a line break", remedy="remove line breaks and NUL characters from the headers"
        )
    return f"{text}Content-Length: {length}\r\n\r\n".encode("latin-1")
