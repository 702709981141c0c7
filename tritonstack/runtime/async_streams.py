"""Send one request to a server from an event loop, and read its response while it arrives."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from tritonstack.base.http_replies import InvalidReplyError, ReplyReader
from tritonstack.runtime.async_connections import in_thread, request_head
from tritonstack.runtime.errors import TAKE_LONGER, TritonRequestError, TritonTimeoutError

_LARGEST_PART = 64 * 1024


class ResponseStream:
    """A response whose body is still arriving. The caller must close it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, deadline: float) -> None:
        self._received = reader
        self._writer = writer
        self._deadline = deadline
        self._reply = ReplyReader()

    @property
    def status(self) -> int:
        """0 until the head of the response has arrived."""
        return self._reply.status

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name."""
        return self._reply.headers

    async def begin(self, request: bytes) -> None:
        """Send the request, and read the head of the response."""
        async with self._limited():
            self._writer.write(request)
            await self._writer.drain()
        while not self.status:
            await self._read()

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives: the whole chunks of a chunked body, else what one read returns."""
        while True:
            while part := self._reply.take():
                yield part
            if self._reply.complete:
                return
            await self._read()

    async def whole(self) -> bytes:
        """Return the rest of the body."""
        return b"".join([part async for part in self.parts()])

    def close(self) -> None:
        """Close the connection at once: a server that still computes notices it."""
        self._writer.transport.abort()

    async def _read(self) -> None:
        async with self._limited():
            self._reply.add(await self._received.read(_LARGEST_PART))

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        """Limit one step to the remaining time, and raise this package's errors."""
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                yield
        except TimeoutError:
            raise TritonTimeoutError("Triton did not respond in time", remedy=TAKE_LONGER) from None
        except (OSError, InvalidReplyError) as error:
            raise TritonRequestError(f"Triton broke off its response: {error!r}") from error


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
    opened = await in_thread(connect)
    opened.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=opened, limit=_LARGEST_PART)
    stream = ResponseStream(reader, writer, deadline)
    try:
        await stream.begin(request_head(method, path, headers, len(body)) + body)
    except BaseException:
        stream.close()
        raise
    return stream
