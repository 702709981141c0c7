"""Listen on the local cloud's port, verify requests of the data plane, and write their responses."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus

from werkzeug.wrappers import Response

from tritonstack.triton.async_connections import in_thread
from tritonstack_local.access.guard import Guard
from tritonstack_local.access.requests import DeniedError, Reason, SentRequest
from tritonstack_local.access.verifier import BodyCheck
from tritonstack_local.data_plane.connections import (
    Connections,
    FrontConnection,
    HandOver,
    Uploads,
    accept,
)
from tritonstack_local.data_plane.heads import RequestHead
from tritonstack_local.sagemaker.invocations import Invocations, StreamedAnswer
from tritonstack_local.service import wire
from tritonstack_local.service.errors import ServiceError

BACKLOG = 1024
MOST_CONNECTIONS = 512
MOST_UNVERIFIED = 256 << 20
"""Memory for bodies whose signatures are not yet verified, in bytes."""
_EXPIRY_S = 2.0
_LONG_HASH = 256 * 1024
"""Bodies larger than this are verified in a thread."""


class Front:
    """Accepts all connections of a port, in the runtime's event loop."""

    def __init__(
        self, *, listener: socket.socket, guard: Guard, runtime: Invocations, hand_over: HandOver
    ) -> None:
        self._guard = guard
        self._runtime = runtime
        self._hand_over = hand_over
        self._connections = Connections(MOST_CONNECTIONS)
        self._uploads = Uploads(MOST_UNVERIFIED)
        self._listener = listener
        self._tasks = runtime.events.run(self._listen())

    def close(self) -> None:
        """Stop listening, and end all connections after their running requests."""
        self._runtime.events.run(self._stop())

    async def _listen(self) -> tuple[asyncio.Task[None], ...]:
        loop = asyncio.get_running_loop()
        return loop.create_task(accept(self._listener, self._begin)), loop.create_task(self._expire())

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener.close()
        self._connections.close()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_S)
            self._connections.expire(time.monotonic())

    def _begin(self, connection: socket.socket) -> None:
        FrontConnection(
            connection,
            judge=self._judge,
            serve=self._serve,
            hand_over=self._hand_over,
            uploads=self._uploads,
            connections=self._connections,
        )

    def _judge(self, request: SentRequest, length: int) -> BodyCheck | bytes:
        try:
            check = self._guard.judge(request)
            if length and not self._uploads.reserve(length):
                raise DeniedError(Reason.BUSY)
            return check
        except Exception as error:
            return self._denied(request, error)

    def _denied(self, request: SentRequest, error: Exception) -> bytes:
        return _written(self._guard.denial(request, error), to=request)

    async def _serve(
        self, head: RequestHead, body: bytes, check: BodyCheck
    ) -> bytes | AsyncGenerator[bytes, None]:
        try:
            if len(body) > _LONG_HASH:
                caller = await in_thread(partial(self._guard.admit_whole, check, body))
            else:
                caller = self._guard.admit_whole(check, body)
            scope = caller.scope
            if head.streams:
                streamed = await self._runtime.stream(
                    scope=scope, endpoint=head.endpoint, headers=head.headers, body=body
                )
                return _chunked(streamed)
            answer = await self._runtime.invoke(
                scope=scope, endpoint=head.endpoint, headers=head.headers, body=body
            )
            return _response(answer.status, tuple(answer.headers.items()), answer.body)
        except ServiceError as error:
            return _written(wire.runtime_failure(error), to=head.sent)
        except Exception as error:
            return self._denied(head.sent, error)


@lru_cache(maxsize=1)
def _date_at(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode("latin-1")


def _written(response: Response, *, to: SentRequest) -> bytes:
    headers = tuple(pair for pair in response.headers.items() if pair[0].lower() != "content-length")
    body = response.get_data()
    written = _response(response.status_code, headers, body)
    return written if to.method != "HEAD" else written[: len(written) - len(body)]


async def _chunked(answer: StreamedAnswer) -> AsyncGenerator[bytes, None]:
    """Yield a response whose length is unknown."""
    head, date = _response_head(200, tuple(answer.headers.items())), _date_at(int(time.time()))
    async with aclosing(answer.messages) as messages:
        yield b"%b%bTransfer-Encoding: chunked\r\n\r\n" % (head, date)
        async for message in messages:
            yield b"%x\r\n%b\r\n" % (len(message), message)
    yield b"0\r\n\r\n"


def _response(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> bytes:
    head, date = _response_head(status, headers), _date_at(int(time.time()))
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (head, date, len(body), body)


@lru_cache(maxsize=1024)
def _response_head(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n{lines}".encode("latin-1")


_PHRASES = {status.value: status.phrase for status in HTTPStatus}
