"""Send requests to a server over pooled connections, from any number of threads."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tritonstack.base.http_replies import HttpReply, InvalidReplyError, ReplyReader
from tritonstack.triton.errors import TAKE_LONGER, TritonRequestError, TritonTimeoutError

MAX_IDLE = 32
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class TritonResponse:
    """A response of the server. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ConnectionPool:
    """Keep idle connections for reuse; `connect` opens the socket of a new one."""

    def __init__(self, *, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        timeout_s: float = 60.0,
    ) -> TritonResponse:
        """Send one request and return its response, within the time limit."""
        deadline = time.monotonic() + timeout_s
        message = request_head(method, path, headers, len(body)) + body
        connection = self._take_idle()
        try:
            if connection is not None and method == "GET":
                # The server may close an idle connection just as it is reused. Only requests without side
                # effects are retried, because the server may have processed the first one.
                try:
                    return self._exchange(connection, message, deadline)
                except TimeoutError:
                    raise
                except (OSError, InvalidReplyError):
                    connection = None
            return self._exchange(connection or self._connect(), message, deadline)
        except TimeoutError as error:
            raise late(method, path) from error
        except (OSError, InvalidReplyError) as error:
            raise broken_off(method, path, repr(error)) from error

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take_idle(self) -> socket.socket | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            # An idle connection is readable only if the server has closed it.
            if not select.select([connection], [], [], 0)[0]:
                return connection
            connection.close()

    def _exchange(self, connection: socket.socket, message: bytes, deadline: float) -> TritonResponse:
        try:
            _limit(connection, deadline)
            connection.sendall(message)
            reader, reply = ReplyReader(), None
            while reply is None:
                _limit(connection, deadline)
                reply = reader.feed(connection.recv(reader.read_size))
        except BaseException:
            connection.close()
            raise
        self._put_back(connection, reply)
        return TritonResponse(status=reply.status, headers=reply.headers, body=reply.body)

    def _put_back(self, connection: socket.socket, reply: HttpReply) -> None:
        with self._lock:
            if reply.reusable and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def request_head(method: str, path: str, headers: Mapping[str, str], length: int) -> bytes:
    """Write a request's head with the headers that `http.client` sends."""
    lines = [f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    text = "".join(lines)
    if not text.count("\n") == text.count("\r") == len(lines) + 2 or "\0" in text:
        raise TritonRequestError(
            "a header contains a line break", remedy="remove line breaks and NUL characters from the headers"
        )
    return f"{text}Content-Length: {length}\r\n\r\n".encode("latin-1")


def late(method: str, path: str) -> TritonTimeoutError:
    """Return the error of a request whose time ran out."""
    return TritonTimeoutError(f"Triton did not answer {method} {path} in time", remedy=TAKE_LONGER)


def broken_off(method: str, path: str, reason: str) -> TritonRequestError:
    """Return the error of a request without a whole response."""
    return TritonRequestError(f"Triton broke off {method} {path}: {reason}")


def _limit(connection: socket.socket, deadline: float) -> None:
    """Set the timeout of the next step to the remaining time."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    connection.settimeout(remaining)
