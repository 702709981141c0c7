"""Send requests to a server over pooled connections, from one event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar, cast

from tritonstack.base.http_replies import InvalidReplyError, ReplyReader
from tritonstack.runtime.connections import TritonResponse
from tritonstack.runtime.errors import TAKE_LONGER, TritonRequestError, TritonTimeoutError

MAX_IDLE = 512
"""Idle connections kept for reuse: more than any load test of one machine has users."""
_COPIED_BYTES = 64 * 1024
"""Bodies up to this size are sent in one piece with the head."""

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
        self._reader = ReplyReader()
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
        self._reader = ReplyReader()
        if len(body) < _COPIED_BYTES:
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
        self._add(data)

    def eof_received(self) -> None:
        self.reusable = False
        if self._answer is not None:
            self._add(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget(self)
        self._fail(TritonRequestError(repr(exc) if exc else "it closed the connection without a response"))

    def _add(self, data: bytes) -> None:
        """Read received bytes, none at the connection's end; pass a complete response on."""
        try:
            reply = self._reader.feed(data)
        except InvalidReplyError as error:
            self._fail(TritonRequestError(str(error)))
            return
        if reply is not None:
            self.reusable = reply.reusable
            self._settle(TritonResponse(status=reply.status, headers=reply.headers, body=reply.body))

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
