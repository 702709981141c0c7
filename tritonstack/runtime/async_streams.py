"""Send one request to a server from an event loop, and read its response while it arrives."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from tritonstack.runtime.async_connections import (
    CHUNK_SIZE,
    MAX_HEAD,
    ResponseHead,
    in_thread,
    read_response_head,
    request_head,
)
from tritonstack.runtime.errors import TAKE_LONGER, TritonRequestError, TritonTimeoutError

_LARGEST_PART = 64 * 1024


class ResponseStream:
    """A response whose body is still arriving. The caller must close it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, deadline: float) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        """By lower-case name."""
        self._reader = reader
        self._writer = writer
        self._deadline = deadline
        self._head: ResponseHead | None = None

    async def begin(self, request: bytes) -> None:
        """Send the request, and read the head of the response."""
        async with self._limited():
            self._writer.write(request)
            await self._writer.drain()
            while self._head is None or 100 <= self.status < 200:  # interim responses are skipped
                head = await self._reader.readuntil(b"\r\n\r\n")
                self._head = read_response_head(head[:-4])
                self.status, self.headers = self._head.status, self._head.headers

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives: the chunks of a chunked body, else what one read returns."""
        head = self._head
        if head is None:
            return
        if head.is_chunked:
            async for part in self._chunks():
                yield part
            return
        remaining = head.length
        while remaining is None or remaining > 0:
            async with self._limited():
                part = await self._reader.read(min(_LARGEST_PART, remaining or _LARGEST_PART))
            if not part and remaining is None:
                return
            if not part:
                raise TritonRequestError("Triton closed the connection before the end of its response")
            remaining = None if remaining is None else remaining - len(part)
            yield part

    async def whole(self) -> bytes:
        """Return the rest of the body."""
        return b"".join([part async for part in self.parts()])

    def close(self) -> None:
        """Close the connection at once: a server that still computes notices it."""
        self._writer.transport.abort()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            async with self._limited():
                line = await self._reader.readuntil(b"\r\n")
            match = CHUNK_SIZE.fullmatch(line[:-2])
            if match is None:
                raise TritonRequestError("a chunk of Triton's response does not begin with its size")
            remaining = int(match[1], 16)
            if remaining == 0:  # a trailer may follow, which is of no use
                return
            while remaining > 0:
                async with self._limited():
                    part = await self._reader.readexactly(min(_LARGEST_PART, remaining))
                remaining -= len(part)
                yield part
            async with self._limited():
                await self._reader.readexactly(2)

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        """Limit one step to the remaining time, and raise this package's errors."""
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                yield
        except TimeoutError:
            raise TritonTimeoutError("Triton did not respond in time", remedy=TAKE_LONGER) from None
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
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
    reader, writer = await asyncio.open_connection(sock=opened, limit=MAX_HEAD)
    stream = ResponseStream(reader, writer, deadline)
    try:
        await stream.begin(request_head(method, path, headers, len(body)) + body)
    except BaseException:
        stream.close()
        raise
    return stream
