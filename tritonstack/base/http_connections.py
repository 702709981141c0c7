"""One HTTP/1.1 connection of an event loop."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tritonstack.base.http_replies import InvalidReplyError, ReplyReader


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
