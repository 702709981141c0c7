"""A connection of the local cloud's port: it serves InvokeEndpoint requests, one after the other.

A request is judged by its head. A malformed or denied one gets its answer at once, and its body is dropped as
it arrives.
Any other request than InvokeEndpoint is handed over to the general server once it is complete, with the
connection and all bytes received of it: the general server's threads never wait for an unknown client.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import cast

from tritonstack_local.data_plane.heads import (
    MAX_HEAD,
    MalformedHeadError,
    OtherHead,
    RequestHead,
    may_begin,
    read_head,
    read_other_head,
)
from tritonstack_local.signatures.requests import SentRequest
from tritonstack_local.signatures.verifier import BodyCheck

BUFFERED = 64 * 1024
"""Bytes of later requests to keep while one is served; more stay in the socket."""

HEAD_S = 20.0
"""Longest time for the head of a request."""
BODY_S = 60.0
"""Longest time for its body."""
READ_S = 60.0
"""Longest time for a client to read a response, or a piece of a stream."""
MOST_DROPPED = 32 << 20
"""Bytes of a denied request to read before its connection ends; many clients send everything first."""
_SMALL = 64 * 1024
"""Size of bodies for which no memory is reserved."""

Judge = Callable[[SentRequest, int], BodyCheck | bytes]
"""Takes a head, and the length of its body to reserve memory for; returns the check of the body, or the
response that denies the request."""
Serve = Callable[[RequestHead, bytes, BodyCheck], Awaitable[bytes | AsyncGenerator[bytes, None]]]
"""Returns the whole response to a request, or its pieces as they become available."""
HandOver = Callable[[socket.socket, bytes], None]
"""Takes a connection, and what was received from it."""


class Uploads:
    """Limits the memory for bodies whose signatures are not yet verified, over all connections."""

    def __init__(self, most: int) -> None:
        self._left = most

    def reserve(self, size: int) -> bool:
        """Return whether a body may be received."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def release(self, size: int) -> None:
        """Return what was reserved."""
        self._left += size


class Connections:
    """The open connections of a port, oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[FrontConnection, None] = {}

    def add(self, connection: FrontConnection) -> None:
        """Add a connection; if there are too many, end the one that has waited longest for its request."""
        self._open[connection] = None
        if len(self._open) > self._most:
            waiting = [item for item in self._open if item.is_waiting]
            min(waiting, key=lambda item: item.since, default=connection).end()

    def remove(self, connection: FrontConnection) -> None:
        """Remove a connection that ended or was handed over."""
        self._open.pop(connection, None)

    def close(self) -> None:
        """Close all after their running requests."""
        for connection in list(self._open):
            connection.close()

    def expire(self, now: float) -> None:
        """End those whose clients take too long to send a request."""
        for connection in list(self._open):
            connection.expire(now)


class FrontConnection(asyncio.Protocol):
    """One client connection."""

    def __init__(
        self, *, judge: Judge, serve: Serve, hand_over: HandOver, uploads: Uploads, connections: Connections
    ) -> None:
        self._judge = judge
        self._serve = serve
        self._hand_over = hand_over
        self._uploads = uploads
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._received: bytes | bytearray = b""
        """A bytearray unless it is one piece, as sent by a client that sends one request at a time."""
        self._judged: tuple[RequestHead | OtherHead, BodyCheck] | None = None
        self._head_size = 0
        self._reserved = 0
        self.since = 0.0
        """When the client could begin to send the next part of a request, or to read a response."""
        self._has_served = False
        self._to_drop = 0
        """Bytes left of a denied request's body."""
        self._ends_denied = False
        """Whether the connection ends with the denied request."""
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
        self.since = time.monotonic()
        self._connections.add(self)
        transport.set_write_buffer_limits(high=0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a running request go on: its server works on it anyway, and it is counted. End a stream."""
        self._forget()
        if self._streams and self._task is not None:
            self._task.cancel()

    def _forget(self) -> None:
        self._transport = None
        self._connections.remove(self)
        self._release()

    def _release(self) -> None:
        self._uploads.release(self._reserved)
        self._reserved = 0

    @property
    def is_waiting(self) -> bool:
        """Whether its client must send a request, or read a response."""
        return self._transport is not None and (self._blocked or self._task is None)

    def end(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def expire(self, now: float) -> None:
        """End the connection if its client takes too long; clients may keep one after a request."""
        is_idle = self._has_served and not self._received and self._judged is None and not self._to_drop
        longest = HEAD_S if self._judged is None and not self._to_drop else BODY_S
        if self._blocked:
            is_idle, longest = False, READ_S
        if self.is_waiting and not is_idle and now - self.since > longest:
            self.end()

    def data_received(self, data: bytes) -> None:
        """Begin a request when it is complete; stop reading if the client sends far ahead."""
        if self._to_drop:
            data = self._dropped(data)
        if not self._received:
            if self._judged is None and not self._to_drop:
                self.since = time.monotonic()
            self._received = data
        elif isinstance(self._received, bytearray):
            self._received += data
        else:
            self._received = bytearray().join((self._received, data))
        self._proceed()

    def _dropped(self, data: bytes) -> bytes:
        """Drop the body of a denied request; return what follows."""
        dropped = min(self._to_drop, len(data))
        self._to_drop -= dropped
        if not self._to_drop and self._ends_denied and self._transport is not None:
            self._transport.close()
        return data[dropped:]

    def eof_received(self) -> bool:
        """Answer what was received: the client may still read. A stream ends with its client."""
        self._ended = True
        if self._streams and self._task is not None:
            self._task.cancel()
        self._proceed()
        return True

    def pause_writing(self) -> None:
        """Begin no request until the client has read the last response."""
        self._blocked, self.since = True, time.monotonic()

    def resume_writing(self) -> None:
        """Write the next piece, or begin the next request."""
        self._blocked, self.since = False, time.monotonic()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._proceed()

    def _is_busy(self) -> bool:
        return self._task is not None or self._blocked

    def _proceed(self) -> None:
        """Begin the next request, if it has been received and the last one is over; deny those before it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        remaining = -1
        while not transport.is_closing() and not self._is_busy() and len(self._received) != remaining:
            if not (remaining := len(self._received)):
                if self._ended:
                    transport.close()
                break
            self._begin(transport)
        is_ahead = self._is_busy() and len(self._received) > BUFFERED
        if is_ahead and not self._paused:
            transport.pause_reading()
        elif self._paused and not is_ahead:
            transport.resume_reading()
        self._paused = is_ahead

    def _begin(self, transport: asyncio.Transport) -> None:
        if self._judged is None:
            self._judged = self._take_head(transport)
        if self._judged is None:
            return
        head, check = self._judged
        end = self._head_size + head.length
        if len(self._received) < end and not self._ended:
            return
        if isinstance(head, OtherHead) or len(self._received) < end:
            self._give_away(transport)  # it answers an incomplete request with an error
            return
        body = bytes(memoryview(self._received)[self._head_size : end])
        self._drop(end)
        self._judged = None
        if self._reserved:
            self._release()
        self._task = asyncio.get_running_loop().create_task(self._answer(head, body, check))

    def _drop(self, size: int) -> None:
        """Remove the first bytes."""
        if size == len(self._received):
            self._received = b""
            return
        if not isinstance(self._received, bytearray):
            self._received = bytearray(self._received)
        del self._received[:size]

    def _take_head(self, transport: asyncio.Transport) -> tuple[RequestHead | OtherHead, BodyCheck] | None:
        """Read and judge the next head; None if it is incomplete, malformed, denied, or handed over."""
        try:
            head = self._read_head()
            if head is None and self._ended:
                raise MalformedHeadError(HTTPStatus.BAD_REQUEST, "the request ends within its head")
        except MalformedHeadError as error:
            self._head_size = 0
            self._deny(transport, _rejection(error), announced=None, keeps=False)
            return None
        if head is None:
            return None
        reserved = head.length if head.length > _SMALL else 0
        check = self._judge(head.sent, reserved)
        if isinstance(check, bytes):
            announced = head.length if isinstance(head, RequestHead) else head.announced
            keeps = isinstance(head, RequestHead) and head.keep_alive and head.length <= MOST_DROPPED
            self._deny(transport, check, announced=announced, keeps=keeps)
            return None
        self._reserved, self.since = reserved, time.monotonic()
        if check.is_final and isinstance(head, OtherHead):
            self._give_away(transport)  # S3's signature is verified; its bodies may be large
            return None
        return head, check

    def _read_head(self) -> RequestHead | OtherHead | None:
        end = self._received.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end >= 0 and may_begin(self._received):
            self._head_size = end + 4
            head = read_head(bytes(self._received[:end]))
            if head is not None:
                return head
        other = read_other_head(self._received)
        if other is None:
            return None
        self._head_size = other[1]
        return other[0]

    def _deny(
        self, transport: asyncio.Transport, response: bytes, *, announced: int | None, keeps: bool
    ) -> None:
        """Answer at once, and drop the body as it arrives."""
        self._to_drop = MOST_DROPPED if announced is None else min(announced, MOST_DROPPED)
        self._ends_denied = not keeps or self._closing
        self._has_served, self.since = True, time.monotonic()
        transport.write(response)
        body = min(self._to_drop, len(self._received) - self._head_size)
        self._drop(self._head_size + body)
        self._to_drop -= body
        if not self._to_drop and self._ends_denied:
            transport.close()

    async def _answer(self, head: RequestHead, body: bytes, check: BodyCheck) -> None:
        is_whole = False
        try:
            response = await self._serve(head, body, check)
            if isinstance(response, bytes):
                if self._transport is not None:
                    self._transport.write(response)
            else:
                await self._write_pieces(response)
            is_whole = True
        finally:
            self._task, self._has_served, self.since = None, True, time.monotonic()
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
        self._forget()
        connection = transport.get_extra_info("socket").dup()
        transport.abort()  # closes this descriptor only
        connection.setblocking(True)
        self._hand_over(connection, received)


def _rejection(error: MalformedHeadError) -> bytes:
    return (
        f"HTTP/1.1 {error.status} {error.status.phrase}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        f"Content-Length: {len(str(error).encode()) + 1}\r\n\r\n{error}\n"
    ).encode()
