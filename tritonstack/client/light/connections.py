"""Exchange HTTP/1.1 messages over pooled connections, from threads or from asyncio."""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from time import gmtime, strftime
from typing import Protocol

from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)
from urllib3.util import wait_for_read

from tritonstack.base.http import HttpConnection, HttpReply, InvalidReplyError, ReplyReader

# Sign requests with AWS Signature Version 4, deriving the signing key once per day and secret key.


_ALGORITHM = "AWS4-HMAC-SHA256"


class FrozenCredentials(Protocol):
    """One consistent set of credentials: botocore's ReadOnlyCredentials."""

    access_key: str
    secret_key: str
    token: str | None


@dataclass(frozen=True)
class RequestTemplate:
    """The parts of a POST request that do not depend on its body, time or credentials."""

    url: str
    target: str
    """Path and query as sent."""
    canonical_path: str
    """Path as signed."""
    headers: Mapping[str, str]
    """Signed headers by lower-case name, with the host."""
    unsigned_headers: Mapping[str, str]


class RequestSigner:
    """Signs requests for one region and service. Threads may share it."""

    def __init__(self, *, region: str, service: str) -> None:
        self.region = region
        self.service = service
        self._key = ("", "", b"")  # secret key, day, and the signing key that follows from them

    def message(self, template: RequestTemplate, *, body: bytes | bytearray, by: FrozenCredentials) -> bytes:
        """Return the signed HTTP/1.1 message for `template` with `body`."""
        time = strftime("%Y%m%dT%H%M%SZ", gmtime())
        signed = {**template.headers, "x-amz-date": time}
        if by.token:
            signed["x-amz-security-token"] = by.token
        headers = {
            **signed,
            "authorization": self._authorization(template.canonical_path, signed, body, by),
            **template.unsigned_headers,
            "content-length": str(len(body)),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return b"".join((f"POST {template.target} HTTP/1.1\r\n{lines}\r\n".encode(), body))

    def _authorization(
        self, path: str, signed: Mapping[str, str], body: bytes | bytearray, by: FrozenCredentials
    ) -> str:
        time = signed["x-amz-date"]
        names = sorted(signed)
        # Signature Version 4 signs values without outer spaces, inner ones reduced to one.
        lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in names)
        listed = ";".join(names)
        request = f"POST\n{path}\n\n{lines}\n{listed}\n{sha256(body).hexdigest()}"
        scope = f"{time[:8]}/{self.region}/{self.service}/aws4_request"
        text = f"{_ALGORITHM}\n{time}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key(by.secret_key, time[:8]), text.encode(), "sha256").hex()
        return (
            f"{_ALGORITHM} Credential={by.access_key}/{scope}, SignedHeaders={listed}, Signature={signature}"
        )

    def _signing_key(self, secret_key: str, day: str) -> bytes:
        known_secret, known_day, key = self._key
        if (known_secret, known_day) != (secret_key, day):
            key = f"AWS4{secret_key}".encode()
            for part in (day, self.region, self.service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (secret_key, day, key)  # one assignment: other threads see the old or the new tuple
        return key


WRITE_SIZE = 262_144


class BrokenBodyError(Exception):
    """The body of a successful reply broke off; boto3 does not retry then either."""

    def __init__(self, error: BotoCoreError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class Route:
    """How to reach a server, with boto3's settings."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None
    """None for plain HTTP; called once per connection."""
    connect_timeout: float | None
    read_timeout: float | None
    """Longest wait for the next bytes."""
    max_idle: int
    """Unused connections to keep."""
    keep_alive_probes: bool

    def configure(self, connection: socket.socket) -> None:
        """Set the socket options that botocore sets."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.keep_alive_probes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def connect_error(raised: Exception, url: str) -> BotoCoreError:
    """Return botocore's error for a connection that could not be made."""
    if isinstance(raised, TimeoutError):
        return ConnectTimeoutError(endpoint_url=url, error=raised)
    if isinstance(raised, ssl.SSLError):
        return SSLError(endpoint_url=url, error=raised)
    return EndpointConnectionError(endpoint_url=url, error=raised)


def exchange_error(
    raised: Exception, reader: ReplyReader | None, url: str
) -> BotoCoreError | BrokenBodyError:
    """Return the error for an exchange that broke off."""
    timed_out = isinstance(raised, TimeoutError)
    if reader is not None and 200 <= reader.status < 300:
        broken = ReadTimeoutError(endpoint_url=url) if timed_out else ResponseStreamingError(error=raised)
        return BrokenBodyError(broken)
    kind = ReadTimeoutError if timed_out else ConnectionClosedError
    return kind(endpoint_url=url, error=raised)


class ThreadConnections:
    """Connections for threads, each used by one thread at a time."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._idle: list[socket.socket] = []

    def exchange(self, message: bytes, *, url: str) -> HttpReply:
        """Send `message` and return the reply."""
        connection = self._reused(message, url)
        if connection is None:
            connection = self._connect(url)
            try:
                connection.sendall(message)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server may have replied before it closed the connection
            except OSError as raised:
                connection.close()
                raise exchange_error(raised, None, url) from raised
        return self._receive(connection, url)

    def close(self) -> None:
        """Close the unused connections."""
        while self._idle:
            self._idle.pop().close()

    def _reused(self, message: bytes, url: str) -> socket.socket | None:
        """Send `message` on an unused connection, and return the connection; None if there is none."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if wait_for_read(connection, 0):  # closed by the server
                connection.close()
                continue
            try:
                connection.sendall(message)
            except TimeoutError as raised:
                connection.close()
                raise exchange_error(raised, None, url) from raised
            except OSError:  # the server did not get the whole request, so sending it again is safe
                connection.close()
                return None
            return connection

    def _connect(self, url: str) -> socket.socket:
        route = self._route
        try:
            connection = socket.create_connection((route.host, route.port), route.connect_timeout)
            try:
                route.configure(connection)
                if route.tls is not None:
                    connection = route.tls().wrap_socket(connection, server_hostname=route.host)
            except BaseException:
                connection.close()
                raise
        except (OSError, ValueError) as raised:
            raise connect_error(raised, url) from raised
        connection.settimeout(route.read_timeout)
        return connection

    def _receive(self, connection: socket.socket, url: str) -> HttpReply:
        reader = ReplyReader()
        try:
            while (reply := reader.feed(connection.recv(reader.read_size))) is None:
                pass
        except (OSError, InvalidReplyError) as raised:
            connection.close()
            raise exchange_error(raised, reader, url) from raised
        except BaseException:
            connection.close()
            raise
        if reply.reusable and len(self._idle) < self._route.max_idle:
            self._idle.append(connection)
        else:
            connection.close()
        return reply


class LoopConnections:
    """Connections of one asyncio event loop."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._idle: list[HttpConnection] = []

    async def exchange(self, message: bytes, *, url: str) -> HttpReply:
        """Send `message` and return the reply."""
        connection = self._unused() or await self._connect(url)
        reader = None
        try:
            reader = connection.send(message[:WRITE_SIZE])
            await self._send_rest(connection, message)
            while not reader.complete:
                async with asyncio.timeout(self._route.read_timeout):
                    await connection.progress()
        except (OSError, InvalidReplyError) as raised:
            raise exchange_error(raised, reader, url) from raised
        finally:
            if connection.reusable and len(self._idle) < self._route.max_idle:
                self._idle.append(connection)
            else:
                connection.close()
        return HttpReply(reader.status, reader.headers, b"".join(iter(reader.take, b"")), reader.reusable)

    async def close(self) -> None:
        """Close the unused connections."""
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)  # the loop closes aborted transports in its next turn

    async def _send_rest(self, connection: HttpConnection, message: bytes) -> None:
        """Send what follows the first part; the read timeout limits the wait before each part."""
        for start in range(WRITE_SIZE, len(message), WRITE_SIZE):
            async with asyncio.timeout(self._route.read_timeout):
                await connection.drained()
            connection.write(message[start : start + WRITE_SIZE])

    def _unused(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and not wait_for_read(connection.socket, 0):
                return connection
            connection.close()
        return None

    async def _connect(self, url: str) -> HttpConnection:
        route = self._route
        try:
            context = None if route.tls is None else route.tls()
            async with asyncio.timeout(route.connect_timeout):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(paced=True),
                    route.host,
                    route.port,
                    ssl=context,
                    server_hostname=None if context is None else route.host,
                )
        except (OSError, ValueError) as raised:
            raise connect_error(raised, url) from raised
        route.configure(connection.socket)
        return connection
