"""A connection of the local cloud's port: it serves InvokeEndpoint requests, one after the other.

A request is judged by its head. A malformed or denied one gets its answer at once, and its body is dropped as
it arrives.
Any other request than InvokeEndpoint is handed over to the general server once it is complete, with the
connection and all bytes received of it: the general server's threads never wait for an unknown client.

A connection reads only what the current request needs; later requests stay in the socket.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from http import HTTPStatus

from tritonstack_local.access.requests import SentRequest
from tritonstack_local.access.verifier import BodyCheck
from tritonstack_local.data_plane.heads import (
    MAX_HEAD,
    MalformedHeadError,
    OtherHead,
    RequestHead,
    may_begin,
    read_head,
    read_other_head,
)

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
_CHUNK_BYTES = 256 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_ACCEPT_AGAIN_S = 1.0

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


class FrontConnection:
    """One client connection, served by a task of its own until it ends or is handed over."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        judge: Judge,
        serve: Serve,
        hand_over: HandOver,
        uploads: Uploads,
        connections: Connections,
    ) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._judge = judge
        self._serve = serve
        self._hand_over = hand_over
        self._uploads = uploads
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self.since = time.monotonic()
        """When the client could begin to send the next part of a request, or to read a response."""
        self._longest_s: float | None = HEAD_S
        """How long the client may take for it; None while a request is served."""
        self._is_sending = False
        self._has_served = False
        self._is_closing = False
        self._is_given_away = False
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._forget)
        connections.add(self)

    def close(self) -> None:
        """Close the connection after the running request."""
        self._is_closing = True
        if self.is_waiting and not self._is_sending:
            self.end()

    @property
    def is_waiting(self) -> bool:
        """Whether its client must send a request, or read a response."""
        return self._longest_s is not None

    def end(self) -> None:
        """End the connection."""
        self._task.cancel()

    def expire(self, now: float) -> None:
        """End the connection if its client takes too long; clients may keep one after a request."""
        if self._longest_s is not None and now - self.since > self._longest_s:
            self.end()

    async def _run(self) -> None:
        with suppress(OSError):  # the client has gone
            while await self._serve_next() and not self._is_closing:
                await asyncio.sleep(0)  # a client that sends many requests at once delays no other

    def _forget(self, _task: asyncio.Task[None]) -> None:
        self._connections.remove(self)
        if not self._is_given_away:
            self._socket.close()

    async def _serve_next(self) -> bool:
        """Serve or deny the next request; return whether another one may follow."""
        try:
            taken = await self._take_head()
        except MalformedHeadError as error:
            return await self._deny(_rejection(error), announced=None, keeps=False)
        if taken is None:
            return False
        head, size = taken
        reserved = head.length if head.length > _SMALL else 0
        check = self._judge(head.sent, reserved)
        if isinstance(check, bytes):
            announced = head.length if isinstance(head, RequestHead) else head.announced
            keeps = isinstance(head, RequestHead) and head.keep_alive and head.length <= MOST_DROPPED
            del self._received[:size]
            return await self._deny(check, announced=announced, keeps=keeps)
        try:
            if isinstance(head, RequestHead) and head.awaits_continue:
                await self._send(_CONTINUE)
            # S3's signature is verified with its head; its bodies may be large.
            is_whole = (isinstance(head, OtherHead) and check.is_final) or await self._has(size + head.length)
            if isinstance(head, OtherHead) or not is_whole:
                self._give_away()  # the general server answers an incomplete request with an error
                return False
            with memoryview(self._received) as received:
                body = bytes(received[size : size + head.length])
            del self._received[: size + head.length]
        finally:
            self._uploads.release(reserved)
        response = await self._serve(head, body, check)
        await (self._send(response) if isinstance(response, bytes) else self._send_pieces(response))
        self._has_served = True
        return head.keep_alive

    async def _take_head(self) -> tuple[RequestHead | OtherHead, int] | None:
        """Receive the next head; return it with its size, or None if the client has ended the connection."""
        self.since = time.monotonic()
        while (taken := self._read_head()) is None:
            has_begun = bool(self._received)
            if not await self._receive(HEAD_S if has_begun or not self._has_served else math.inf):
                if has_begun:
                    raise MalformedHeadError(HTTPStatus.BAD_REQUEST, "the request ends within its head")
                return None
            if not has_begun:
                self.since = time.monotonic()
        return taken

    def _read_head(self) -> tuple[RequestHead | OtherHead, int] | None:
        end = self._received.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end >= 0 and may_begin(self._received):
            head = read_head(bytes(self._received[:end]))
            if head is not None:
                return head, end + 4
        return read_other_head(self._received)

    async def _has(self, size: int) -> bool:
        """Receive so many bytes; return whether the client has sent them."""
        self.since = time.monotonic()
        while len(self._received) < size:
            if not await self._receive(BODY_S):
                return False
        return True

    async def _receive(self, longest_s: float) -> bool:
        """Receive something; return False at the end of the connection."""
        self._longest_s = longest_s
        data = await self._loop.sock_recv(self._socket, _CHUNK_BYTES)
        self._longest_s = None
        self._received += data
        return bool(data)

    async def _send(self, data: bytes) -> None:
        self.since, self._longest_s, self._is_sending = time.monotonic(), READ_S, True
        await self._loop.sock_sendall(self._socket, data)
        self._longest_s, self._is_sending = None, False

    async def _send_pieces(self, response: AsyncGenerator[bytes, None]) -> None:
        """Send a response at the client's pace, until its end or the client's."""
        self._loop.add_reader(self._socket, self._end_if_left)
        try:
            async with aclosing(response) as pieces:
                async for piece in pieces:
                    await self._send(piece)
        finally:
            self._loop.remove_reader(self._socket)

    def _end_if_left(self) -> None:
        self._loop.remove_reader(self._socket)
        try:
            has_left = not self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            has_left = True
        if has_left:
            self.end()

    async def _deny(self, response: bytes, *, announced: int | None, keeps: bool) -> bool:
        """Answer at once, and drop the body as it arrives."""
        await self._send(response)
        left = MOST_DROPPED if announced is None else min(announced, MOST_DROPPED)
        self.since, self._has_served = time.monotonic(), True
        while left and (self._received or await self._receive(BODY_S)):
            dropped = min(left, len(self._received))
            del self._received[:dropped]
            left -= dropped
        return keeps

    def _give_away(self) -> None:
        self._is_given_away = True
        self._socket.setblocking(True)
        self._hand_over(self._socket, bytes(self._received))


async def accept(listener: socket.socket, begin: Callable[[socket.socket], object]) -> None:
    """Accept connections until cancelled."""
    listener.setblocking(False)
    while True:
        try:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        except OSError:  # the client has gone, or there are too many open files
            await asyncio.sleep(_ACCEPT_AGAIN_S)
        else:
            begin(connection)


def _rejection(error: MalformedHeadError) -> bytes:
    return (
        f"HTTP/1.1 {error.status} {error.status.phrase}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        f"Content-Length: {len(str(error).encode()) + 1}\r\n\r\n{error}\n"
    ).encode()
