"""Send requests to a server from one event loop: over pooled connections, or with a streamed response."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar, cast

from tritonstack.base.http_replies import InvalidReplyError, ReplyReader
from tritonstack.runtime.connections import TritonResponse, broken_off, late, request_head

MAX_IDLE = 512
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
        self._idle: list[_Connection] = []
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
            if connection.reusable and not self._closed and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close idle connections, from any thread."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_idle)

    def _unused(self) -> _Connection | None:
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
        self, connection: _Connection, reply: ReplyReader, deadline: float, method: str, path: str
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


async def _open(connect: Callable[[], socket.socket], *, paced: bool) -> _Connection:
    opened = await in_thread(connect)
    opened.setblocking(False)
    loop = asyncio.get_running_loop()
    _, connection = await loop.connect_accepted_socket(lambda: _Connection(paced=paced), opened)
    return connection


class _Connection(asyncio.Protocol):
    """One connection: at most one request at a time."""

    def __init__(self, *, paced: bool) -> None:
        """A paced connection reads on only when its user asks for progress."""
        self._paced = paced
        self._transport: asyncio.Transport | None = None
        self._reply: ReplyReader | None = None
        self._change: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    @property
    def reusable(self) -> bool:
        """Whether the next request can be sent on it."""
        return self._is_open and self._reply is not None and self._reply.reusable

    @property
    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, message: bytes) -> ReplyReader:
        """Send a request; its reply is complete after some `progress`."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the connection is closed")
        self._reply = ReplyReader()
        self._transport.write(message)
        return self._reply

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
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._add(data)

    def eof_received(self) -> None:
        self._add(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionError("it closed the connection without a response"))

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
        if self._paced and self._transport is not None:
            self._transport.pause_reading()
        if self._paced or complete:
            self._wake()

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        self.close()
        self._wake()

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)


@contextmanager
def _explained(method: str, path: str) -> Iterator[None]:
    """Raise this package's errors for a request without a response in time."""
    try:
        yield
    except TimeoutError:
        raise late(method, path) from None
    except (OSError, InvalidReplyError) as error:
        raise broken_off(method, path, repr(error)) from error
