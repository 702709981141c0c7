"""The local cloud's HTTP server: it judges requests by their heads, and passes them to the services.

InvokeEndpoint runs in the event loop. All other requests run in threads, as WSGI requests: moto's services
block. What a client may send before its signature is verified is limited in size and time, and so is what it
may leave unread.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp.web import BaseRequest, RequestHandler, Server, StreamResponse
from moto.moto_server.werkzeug_app import MotoRequestHandler
from multidict import CIMultiDict
from werkzeug.datastructures import Headers
from werkzeug.wrappers import Response

from tritonstack.triton.connections import in_thread
from tritonstack_local.access.guard import Guard
from tritonstack_local.access.requests import DeniedError, Reason, SentRequest, largest_body, too_large
from tritonstack_local.access.verifier import BodyCheck, Payload
from tritonstack_local.sagemaker.invocations import Invocations
from tritonstack_local.scope import CALLER, Caller
from tritonstack_local.service import wire
from tritonstack_local.service.errors import ServiceError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Application = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]

BACKLOG = 1024
MOST_CONNECTIONS = 512
MOST_THREADS = 256
MOST_UNVERIFIED = 256 << 20
"""Memory for bodies whose signatures are not yet verified, in bytes."""
HEAD_S = 60.0
"""Longest time for the head of a request, and for a connection without one."""
BODY_S = 60.0
"""Longest time for a body whose signature is not yet verified, and without any byte of another one."""
READ_S = 60.0
"""Longest time for a client to read a response, or a piece of one."""
_MOST_HEADERS, _LONGEST_HEADER = 100, 32 << 10
_SMALL = 64 << 10
"""Size of bodies for which no memory is reserved."""
_LONG_HASH = 256 << 10
"""Bodies larger than this are verified in a thread."""
_BLOCK = 1 << 18
_WHOLE = 1 << 20
"""Size of responses that are sent at once."""
_INVOCATION = re.compile(
    r"/endpoints/(?P<endpoint>[A-Za-z0-9-]{1,63})/invocations(?P<streams>-response-stream)?"
)
_http_log = logging.getLogger(f"{__name__}.http")
_http_log.setLevel(logging.CRITICAL)  # malformed requests of unknown clients are no errors


class _Reply(NamedTuple):
    status: int
    headers: Iterable[tuple[str, str]]
    begin: bytes = b""
    rest: AsyncGenerator[bytes, None] | None = None
    """What follows, if the whole is large or is not known yet."""


class _Connections(Server):
    """All open connections; if there are too many, the oldest ends whose request is not verified.

    It is aborted: closing would wait until its client has read what was sent.
    """

    def __init__(self, handler: Any, **options: Any) -> None:
        super().__init__(handler, **options)
        self.busy: set[RequestHandler] = set()
        """Those with a verified request, until its response is sent."""
        self._ended: set[RequestHandler] = set()
        self.streams: dict[RequestHandler, asyncio.Task[Any]] = {}
        """The tasks to cancel when their clients leave; other requests go on."""

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) - len(self._ended) > MOST_CONNECTIONS:
            unverified = (item for item in self.connections if item not in self.busy | self._ended)
            oldest = next(unverified, handler)
            self._ended.add(oldest)
            if oldest.transport is not None:
                oldest.transport.abort()

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._ended.discard(handler)
        task = self.streams.get(handler)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """End all connections after their running requests."""
        for connection in self.connections:
            (connection.close if connection in self.busy else connection.force_close)()


class Front:
    """Serves a port, in the runtime's event loop."""

    def __init__(
        self, *, listener: socket.socket, guard: Guard, runtime: Invocations, application: Application
    ) -> None:
        self._listener = listener
        self._guard = guard
        self._runtime = runtime
        self._application = application
        self._room = MOST_UNVERIFIED
        self._threads = asyncio.Semaphore(MOST_THREADS)
        runtime.events.run(self._listen())

    def close(self) -> None:
        """Stop listening, and end all connections after their running requests."""
        self._runtime.events.run(self._stop())

    async def _listen(self) -> None:
        self.connections = _Connections(
            self._handle,
            auto_decompress=False,
            access_log=None,
            logger=_http_log,
            keepalive_timeout=HEAD_S,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
            read_bufsize=_BLOCK,
        )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.connections, sock=self._listener, backlog=BACKLOG)

    async def _stop(self) -> None:
        self._server.close()
        self.connections.close()

    async def _handle(self, request: BaseRequest) -> StreamResponse:
        connection, connections = request.protocol, self.connections
        try:
            sent = SentRequest(request.method, request.raw_path, _header_pairs(request))
            return await _send(request, await self._answer(request, sent))
        finally:
            connections.busy.discard(connection)
            connections.streams.pop(connection, None)

    async def _answer(self, request: BaseRequest, sent: SentRequest) -> _Reply:
        try:
            check = self._guard.judge(sent)
            if (sent.header("transfer-encoding") or "chunked").lower() != "chunked":
                raise DeniedError(Reason.INCOMPLETE, "unknown transfer encoding")
            if (sent.header("expect") or "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0
            if check.is_final:
                self.connections.busy.add(request.protocol)
                # S3's signature is verified with its head; its bodies may be large.
                return await self._in_thread(sent, check, self._content(request, sent, check))
            body = await self._whole(request, sent, check.service)
            admit = partial(self._guard.admit, check, body)
            caller = await in_thread(admit) if len(body) > _LONG_HASH else admit()
            self.connections.busy.add(request.protocol)
            invocation = _INVOCATION.fullmatch(sent.target) if sent.method == "POST" else None
            if invocation is None:
                return await self._in_thread(sent, check, io.BytesIO(body))
            return await self._invoke(request, caller, sent, invocation, body)
        except ServiceError as error:
            return _written(wire.runtime_failure(error))
        except Exception as error:
            return _written(self._guard.denial(sent, error))

    async def _invoke(
        self, request: BaseRequest, caller: Caller, sent: SentRequest, invocation: re.Match[str], body: bytes
    ) -> _Reply:
        headers = {name: values[-1] for name, values in sent.headers.items()}
        call: dict[str, Any] = {
            "scope": caller.scope,
            "endpoint": invocation["endpoint"],
            "headers": headers,
            "body": body,
        }
        if invocation["streams"]:
            if task := asyncio.current_task():
                self.connections.streams[request.protocol] = task
            streamed = await self._runtime.stream(**call)
            return _Reply(200, streamed.headers.items(), rest=streamed.messages)
        answer = await self._runtime.invoke(**call)
        return _Reply(answer.status, answer.headers.items(), answer.body)

    async def _whole(self, request: BaseRequest, sent: SentRequest, service: str) -> bytes:
        """Receive a whole body within the limits of its service, so that nothing changes before."""
        if request.content.is_eof():  # it has arrived with the head, within the buffer's size
            return request.content.read_nowait()
        limit = largest_body(sent, service)
        size = (request.content_length or 0) if "transfer-encoding" not in sent.headers else limit
        reserved = size if size > _SMALL else 0
        if reserved > self._room:
            raise DeniedError(Reason.BUSY)
        self._room -= reserved
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for block in request.content.iter_any():
                    body += block
                    if len(body) > limit:
                        raise too_large(sent, limit)
        except (OSError, ValueError, TimeoutError) as error:
            raise DeniedError(Reason.INCOMPLETE_BODY) from error
        finally:
            self._room += reserved
        return bytes(body)

    def _content(self, request: BaseRequest, sent: SentRequest, check: BodyCheck) -> io.BufferedIOBase:
        """Return the body of an S3 request, to read in another thread."""
        # CompleteMultipartUpload declares the checksum of an object that is not in its body.
        payload = check.payload.and_checksums(sent) if sent.method == "PUT" else check.payload
        return io.BufferedReader(_Content(request, payload, self._runtime.events.loop), _BLOCK)

    async def _in_thread(self, sent: SentRequest, check: BodyCheck, body: io.BufferedIOBase) -> _Reply:
        async with self._threads:
            response, begin, rest = await in_thread(partial(self._from_application, sent, check, body))
        headers = [pair for pair in response.headers if not pair[0].lower().startswith("access-control-")]
        return _Reply(response.status_code, headers, begin, None if rest is None else _pulled(rest))

    def _from_application(
        self, sent: SentRequest, check: BodyCheck, body: io.BufferedIOBase
    ) -> tuple[Response, bytes, Iterator[bytes] | None]:
        """Return a response, the begin of its body, and the rest of a large one."""
        try:
            response = Response.from_app(self._application, _environ(sent, check, body))
            begin = b""
            blocks: Iterator[Any] = iter(response.response)
            for block in blocks:
                begin += block
                if len(begin) > _WHOLE:
                    return response, b"", chain((begin,), blocks)
            response.close()
        except Exception as error:
            response = self._guard.denial(sent, error)
            begin = response.get_data()
        return response, begin, None


class _Content(io.RawIOBase):
    """The content of a body, verified while it is read; a mismatch raises before the end."""

    def __init__(self, request: BaseRequest, payload: Payload, loop: asyncio.AbstractEventLoop) -> None:
        self._content = request.content if request.body_exists else None
        self._payload = payload
        self._loop = loop
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next piece."""
        if self._ended:
            return 0
        data = b""
        if self._content is not None:
            reading = asyncio.wait_for(self._content.read(len(buffer)), BODY_S)
            try:
                data = asyncio.run_coroutine_threadsafe(reading, self._loop).result()
            except (OSError, ValueError, TimeoutError) as error:
                raise DeniedError(Reason.INCOMPLETE_BODY) from error
        if not data:
            self._ended = True
            self._payload.finish()
        self._payload.update(data)
        buffer[: len(data)] = data
        return len(data)


class _Environ(MotoRequestHandler):
    """Makes the environment of WSGI as moto's own server does, without a connection."""

    server: Any = SimpleNamespace(
        ssl_context=None, multithread=True, multiprocess=False, server_address=("127.0.0.1", 0)
    )
    request_version = "HTTP/1.1"
    connection: Any = None
    client_address = ("127.0.0.1", 0)

    def __init__(self, sent: SentRequest, body: io.BufferedIOBase) -> None:
        self.command, self.path, self.rfile = sent.method, sent.target, body
        self.headers: Any = Headers(
            [pair for pair in sent.header_pairs if pair[0].lower() != "transfer-encoding"]
        )


def _environ(sent: SentRequest, check: BodyCheck, body: io.BufferedIOBase) -> dict[str, Any]:
    try:
        environ = _Environ(sent, body).make_environ()
    except ValueError as error:
        raise DeniedError(Reason.INCOMPLETE, f"invalid target: {error}") from error
    # The verified account is the only one, whatever headers the client sent.
    environ = {name: value for name, value in environ.items() if not name.startswith("HTTP_X_MOTO")}
    account = {"HTTP_X_MOTO_ACCOUNT_ID": check.caller.account, CALLER: check.caller}
    return {**environ, **account, "wsgi.input_terminated": True}


def _header_pairs(request: BaseRequest) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers)


def _written(response: Response) -> _Reply:
    return _Reply(response.status_code, response.headers, response.get_data())


async def _pulled(blocks: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    while block := await in_thread(partial(next, blocks, b"")):
        yield block


def _header_text(value: str) -> str:
    """Return what aiohttp, which writes UTF-8, sends as the bytes of a value that was read as Latin-1."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


async def _send(request: BaseRequest, reply: _Reply) -> StreamResponse:
    """Send a reply at the client's pace, until its end or the client's."""
    headers = CIMultiDict((name, _header_text(value)) for name, value in reply.headers)
    response = StreamResponse(status=reply.status, headers=headers)
    is_head = request.method == "HEAD"
    if reply.rest is None and not is_head:
        response.content_length = len(reply.begin)
    with suppress(TimeoutError):
        if reply.rest is not None and not is_head:
            await response.prepare(request)
            async with aclosing(reply.rest) as pieces:
                async for piece in pieces:
                    async with asyncio.timeout(READ_S):
                        await response.write(piece)
        async with asyncio.timeout(READ_S):
            await response.prepare(request)
            await response.write_eof(b"" if is_head else reply.begin)
        return response
    if request.transport is not None:
        request.transport.abort()
    return response
