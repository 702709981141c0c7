"""Listen on the local cloud's port, verify requests of the data plane, and write their responses."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Protocol
from weakref import WeakSet

from werkzeug.wrappers import Response

from tritonstack.runtime.async_connections import in_thread
from tritonstack_local.access.guard import Guard
from tritonstack_local.data_plane.connections import FrontConnection, HandOver
from tritonstack_local.data_plane.heads import RequestHead
from tritonstack_local.sagemaker.runtime.invocations import PAYLOAD_LIMIT_BYTES, Answer, StreamedAnswer
from tritonstack_local.scope import Scope
from tritonstack_local.service import wire
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.event_loop import EventLoopThread
from tritonstack_local.signatures.requests import DeniedError

BACKLOG = 1024
_LONG_HASH = 256 * 1024
"""Bodies larger than this are verified in a thread."""

log = logging.getLogger(__name__)


class Runtime(Protocol):
    """SageMaker's runtime."""

    events: EventLoopThread

    def invoke(
        self, *, scope: Scope, endpoint: str, headers: Mapping[str, str], body: bytes
    ) -> Awaitable[Answer]:
        """Serve InvokeEndpoint in the event loop."""

    def stream(
        self, *, scope: Scope, endpoint: str, headers: Mapping[str, str], body: bytes
    ) -> Awaitable[StreamedAnswer]:
        """Serve InvokeEndpointWithResponseStream in the event loop."""


class Front:
    """Accepts all connections of a port, in the runtime's event loop."""

    def __init__(
        self, *, listener: socket.socket, guard: Guard, runtime: Runtime, hand_over: HandOver
    ) -> None:
        self._guard = guard
        self._runtime = runtime
        self._hand_over = hand_over
        self._connections: WeakSet[FrontConnection] = WeakSet()
        self._server = runtime.events.run(self._listen(listener))

    def close(self) -> None:
        """Stop listening, and end all connections after their running requests."""
        self._runtime.events.run(self._stop())

    async def _listen(self, listener: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._connection, sock=listener, backlog=BACKLOG)

    async def _stop(self) -> None:
        self._server.close()
        for connection in list(self._connections):
            connection.close()

    def _connection(self) -> FrontConnection:
        connection = FrontConnection(
            serve=self._serve, hand_over=self._hand_over, largest_body=PAYLOAD_LIMIT_BYTES
        )
        self._connections.add(connection)
        return connection

    async def _serve(self, head: RequestHead, body: bytes) -> bytes | AsyncGenerator[bytes, None]:
        try:
            if len(body) > _LONG_HASH:
                caller, content = await in_thread(partial(self._guard.admit_whole, head.sent, body))
            else:
                caller, content = self._guard.admit_whole(head.sent, body)
            scope = Scope(caller.account, caller.region)
            if head.streams:
                streamed = await self._runtime.stream(
                    scope=scope, endpoint=head.endpoint, headers=head.headers, body=content
                )
                return _chunked(streamed)
            answer = await self._runtime.invoke(
                scope=scope, endpoint=head.endpoint, headers=head.headers, body=content
            )
            return _response(answer.status, tuple(answer.headers.items()), answer.body)
        except DeniedError as denied:
            return _written(self._guard.denial(head.sent, denied))
        except ServiceError as error:
            return _written(wire.runtime_failure(error))
        except Exception:
            log.exception("POST %s", head.sent.path)
            failed = ServiceError("InternalFailure", "The request failed in the local cloud.", status=500)
            return _written(wire.runtime_failure(failed))


@lru_cache(maxsize=1)
def _date_at(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode("latin-1")


def _written(response: Response) -> bytes:
    headers = tuple(pair for pair in response.headers.items() if pair[0].lower() != "content-length")
    return _response(response.status_code, headers, response.get_data())


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
