"""Send requests to a server over pooled connections, from any number of threads."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from tritonstack.base.http import HttpConnection, HttpReply, InvalidReplyError, ReplyReader
from tritonstack.triton.errors import TAKE_LONGER, TritonRequestError, TritonTimeoutError

MAX_IDLE = 32
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class TritonResponse:
    """A response of the server. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ConnectionPool:
    """Keep idle connections for reuse; `connect` opens the socket of a new one."""

    def __init__(self, *, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        timeout_s: float = 60.0,
    ) -> TritonResponse:
        """Send one request and return its response, within the time limit."""
        deadline = time.monotonic() + timeout_s
        message = request_head(method, path, headers, len(body)) + body
        connection = self._take_idle()
        try:
            if connection is not None and method == "GET":
                # The server may close an idle connection just as it is reused. Only requests without side
                # effects are retried, because the server may have processed the first one.
                try:
                    return self._exchange(connection, message, deadline)
                except TimeoutError:
                    raise
                except (OSError, InvalidReplyError):
                    connection = None
            return self._exchange(connection or self._connect(), message, deadline)
        except TimeoutError as error:
            raise late(method, path) from error
        except (OSError, InvalidReplyError) as error:
            raise broken_off(method, path, repr(error)) from error

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take_idle(self) -> socket.socket | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            # An idle connection is readable only if the server has closed it.
            if not select.select([connection], [], [], 0)[0]:
                return connection
            connection.close()

    def _exchange(self, connection: socket.socket, message: bytes, deadline: float) -> TritonResponse:
        try:
            _limit(connection, deadline)
            connection.sendall(message)
            reader, reply = ReplyReader(), None
            while reply is None:
                _limit(connection, deadline)
                reply = reader.feed(connection.recv(reader.read_size))
        except BaseException:
            connection.close()
            raise
        self._put_back(connection, reply)
        return TritonResponse(status=reply.status, headers=reply.headers, body=reply.body)

    def _put_back(self, connection: socket.socket, reply: HttpReply) -> None:
        with self._lock:
            if reply.reusable and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def request_head(method: str, path: str, headers: Mapping[str, str], length: int) -> bytes:
    """Write a request's head with the headers that `http.client` sends."""
    lines = [f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    text = "".join(lines)
    if not text.count("\n") == text.count("\r") == len(lines) + 2 or "\0" in text:
        raise TritonRequestError(
            "a header contains a line break", remedy="remove line breaks and NUL characters from the headers"
        )
    return f"{text}Content-Length: {length}\r\n\r\n".encode("latin-1")


def late(method: str, path: str) -> TritonTimeoutError:
    """Return the error of a request whose time ran out."""
    return TritonTimeoutError(f"Triton did not answer {method} {path} in time", remedy=TAKE_LONGER)


def broken_off(method: str, path: str, reason: str) -> TritonRequestError:
    """Return the error of a request without a whole response."""
    return TritonRequestError(f"Triton broke off {method} {path}: {reason}")


def _limit(connection: socket.socket, deadline: float) -> None:
    """Set the timeout of the next step to the remaining time."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    connection.settimeout(remaining)


# Send requests to a server from one event loop: over pooled connections, or with a streamed response.


MAX_IDLE_ASYNC = 512
"""Idle connections kept for reuse: more than any load test of one machine has users."""

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
        self._idle: list[HttpConnection] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def request(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> TritonResponse:
        """Send one request and return its response, within the time limit. Nothing is sent twice."""
        deadline = time.monotonic() + timeout_s
        message = request_head(method, path, headers, len(body)) + body
        self._loop = asyncio.get_running_loop()
        connection = self._unused() or await _open(self._connect, paced=False)
        try:
            with _explained(method, path):
                async with asyncio.timeout_at(deadline):
                    reply = connection.send(message)
                    while not reply.complete:
                        await connection.progress()
            body = b"".join(iter(reply.take, b""))
            return TritonResponse(status=reply.status, headers=reply.headers, body=body)
        finally:
            if connection.reusable and not self._closed and len(self._idle) < MAX_IDLE_ASYNC:
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close idle connections, from any thread."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_idle)

    def _unused(self) -> HttpConnection | None:
        """Take an idle connection that the server has not ended."""
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            connection.close()
        return None

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


class ResponseStream:
    """A response whose body is still arriving. The caller must close it."""

    def __init__(
        self, connection: HttpConnection, reply: ReplyReader, deadline: float, method: str, path: str
    ) -> None:
        self._connection = connection
        self._reply = reply
        self._deadline = deadline
        self._called = (method, path)

    @property
    def status(self) -> int:
        """0 until the head of the response has arrived."""
        return self._reply.status

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name."""
        return self._reply.headers

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives: the whole chunks of a chunked body, else what one read returns."""
        while True:
            while part := self._reply.take():
                yield part
            if self._reply.complete:
                return
            await self.progress()

    async def whole(self) -> bytes:
        """Return the rest of the body."""
        return b"".join([part async for part in self.parts()])

    async def progress(self) -> None:
        """Wait for the next bytes, until the request's time is over."""
        with _explained(*self._called):
            async with asyncio.timeout_at(self._deadline):
                await self._connection.progress()

    def close(self) -> None:
        """Close the connection at once: a server that still computes notices it."""
        self._connection.close()


async def open_stream(
    method: str,
    path: str,
    *,
    connect: Callable[[], socket.socket],
    body: bytes,
    headers: Mapping[str, str],
    timeout_s: float,
) -> ResponseStream:
    """Send one request on a connection of its own; return when the head of the response has arrived."""
    deadline = time.monotonic() + timeout_s
    message = request_head(method, path, headers, len(body)) + body
    connection = await _open(connect, paced=True)
    try:
        with _explained(method, path):
            reply = connection.send(message)
        stream = ResponseStream(connection, reply, deadline, method, path)
        while not stream.status:
            await stream.progress()
    except BaseException:
        connection.close()
        raise
    return stream


async def _open(connect: Callable[[], socket.socket], *, paced: bool) -> HttpConnection:
    opened = await in_thread(connect)
    opened.setblocking(False)
    loop = asyncio.get_running_loop()
    _, connection = await loop.connect_accepted_socket(lambda: HttpConnection(paced=paced), opened)
    return connection


@contextmanager
def _explained(method: str, path: str) -> Iterator[None]:
    """Raise this package's errors for a request without a response in time."""
    try:
        yield
    except TimeoutError:
        raise late(method, path) from None
    except (OSError, InvalidReplyError) as error:
        raise broken_off(method, path, repr(error)) from error
