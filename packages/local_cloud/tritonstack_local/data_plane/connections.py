"""A connection of the local cloud's port: it serves InvokeEndpoint requests, one after the other.

Any other request is handed over to the general server, with the connection and all bytes received of it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from tritonstack_local.data_plane.heads import MAX_HEAD, RequestHead, may_begin, read_head

BUFFERED = 64 * 1024
"""Bytes of later requests to keep while one is served; more stay in the socket."""

Serve = Callable[[RequestHead, bytes], Awaitable[bytes | AsyncGenerator[bytes, None]]]
"""Returns the whole response to a request, or its pieces as they become available."""
HandOver = Callable[[socket.socket, bytes], None]
"""Takes a connection, and what was received from it."""


class FrontConnection(asyncio.Protocol):
    """One client connection."""

    def __init__(self, *, serve: Serve, hand_over: HandOver, largest_body: int) -> None:
        self._serve = serve
        self._hand_over = hand_over
        self._largest_body = largest_body
        self._transport: asyncio.Transport | None = None
        self._received: bytes | bytearray = b""
        """A bytearray unless it is one piece, as sent by a client that sends one request at a time."""
        self._head: RequestHead | None = None
        self._head_size = 0
        self._paused = False
        """Whether later requests stay in the socket."""
        self._task: asyncio.Task[None] | None = None
        self._blocked = False
        """Whether the client has not yet read the last response."""
        self._ended = False
        """Whether the client has sent everything."""
        self._closing = False
        self._streams = False
        """Whether the running request's response is written piece by piece."""
        self._writable: asyncio.Future[None] | None = None
        """Done when the client has read the last piece."""

    def close(self) -> None:
        """Close the connection after the running request."""
        self._closing = True
        if self._transport is not None and self._task is None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a running request go on: its server works on it anyway, and it is counted. End a stream."""
        self._transport = None
        if self._streams and self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Begin a request when it is complete; stop reading if the client sends far ahead."""
        if not self._received:
            self._received = data
        elif isinstance(self._received, bytearray):
            self._received += data
        else:
            self._received = bytearray().join((self._received, data))
        self._proceed()

    def eof_received(self) -> bool:
        """Answer what was received: the client may still read. A stream ends with its client."""
        self._ended = True
        if self._streams and self._task is not None:
            self._task.cancel()
        self._proceed()
        return True

    def pause_writing(self) -> None:
        """Begin no request until the client has read the last response."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Write the next piece, or begin the next request."""
        self._blocked = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._proceed()

    def _is_busy(self) -> bool:
        return self._task is not None or self._blocked

    def _proceed(self) -> None:
        """Begin the next request, if it has been received and the last one is over."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if not self._is_busy():
            if not self._received and self._ended:
                transport.close()
            elif self._received:
                self._begin(transport)
        is_ahead = self._is_busy() and len(self._received) > BUFFERED
        if is_ahead and not self._paused:
            transport.pause_reading()
        elif self._paused and not is_ahead:
            transport.resume_reading()
        self._paused = is_ahead

    def _begin(self, transport: asyncio.Transport) -> None:
        if self._head is None and not self._read_head():
            self._give_away(transport)
            return
        head = self._head
        if head is None or len(self._received) < self._head_size + head.length:
            if self._ended:  # the general server answers an incomplete request with an error
                self._give_away(transport)
            return
        end = self._head_size + head.length
        body = bytes(memoryview(self._received)[self._head_size : end])
        self._drop(end)
        self._head = None
        self._task = asyncio.get_running_loop().create_task(self._answer(head, body))

    def _drop(self, size: int) -> None:
        """Remove the first bytes."""
        if size == len(self._received):
            self._received = b""
            return
        if not isinstance(self._received, bytearray):
            self._received = bytearray(self._received)
        del self._received[:size]

    def _read_head(self) -> bool:
        """Read the next head if it is complete; return False if the general server must read it."""
        end = self._received.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end < 0:
            return len(self._received) < MAX_HEAD and may_begin(self._received)
        self._head = read_head(bytes(self._received[:end]))
        self._head_size = end + 4
        return self._head is not None and self._head.length <= self._largest_body

    async def _answer(self, head: RequestHead, body: bytes) -> None:
        is_whole = False
        try:
            response = await self._serve(head, body)
            if isinstance(response, bytes):
                if self._transport is not None:
                    self._transport.write(response)
            else:
                await self._write_pieces(response)
            is_whole = True
        finally:
            self._task = None
            transport = self._transport
            if transport is not None and not (head.keep_alive and is_whole and not self._closing):
                transport.close()
            else:
                self._proceed()

    async def _write_pieces(self, response: AsyncGenerator[bytes, None]) -> None:
        """Write a response at the client's pace; `connection_lost` cancels it."""
        self._streams = True
        try:
            async with aclosing(response) as pieces:
                async for piece in pieces:
                    if self._transport is None:
                        return
                    self._transport.write(piece)
                    if self._blocked:
                        self._writable = asyncio.get_running_loop().create_future()
                        await self._writable
        finally:
            self._streams = False

    def _give_away(self, transport: asyncio.Transport) -> None:
        """Hand the connection over. Nothing waits to be written: see `_is_busy`."""
        received, self._received = bytes(self._received), b""
        self._transport = None
        connection = transport.get_extra_info("socket").dup()
        transport.abort()  # closes this descriptor only
        connection.setblocking(True)
        self._hand_over(connection, received)
