"""Send requests to a server over pooled connections, from any number of threads."""

from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tritonstack.runtime.errors import TAKE_LONGER, TritonRequestError, TritonTimeoutError

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
        self._idle: list[http.client.HTTPConnection] = []
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
        connection = self._take_idle()
        if connection and method == "GET":
            # The server may close an idle connection just as it is reused. Only requests without side effects
            # are retried, because the server may have processed the first one.
            try:
                return self._exchange(connection, method, path, body, headers, deadline)
            except TritonTimeoutError:
                raise
            except TritonRequestError:
                connection = None
        return self._exchange(connection or self._open(), method, path, body, headers, deadline)

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take_idle(self) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            # An idle connection is readable only if the server has closed it.
            if not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _open(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost")
        connection.auto_open = 0  # never connect to this name and port on the host
        connection.sock = self._connect()
        return connection

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        deadline: float,
    ) -> TritonResponse:
        try:
            _limit(connection, deadline)
            connection.request(method, path, body=body or None, headers=dict(headers))
            _limit(connection, deadline)
            answer = connection.getresponse()
            _limit(connection, deadline)
            response = TritonResponse(
                status=answer.status,
                headers={name.lower(): value for name, value in answer.getheaders()},
                body=answer.read(),
            )
        except TimeoutError as error:
            connection.close()
            raise TritonTimeoutError(
                f"Triton did not answer {method} {path} in time", remedy=TAKE_LONGER
            ) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise TritonRequestError(f"Triton broke off {method} {path}: {error!r}") from error
        self._put_back(connection)
        return response

    def _put_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _limit(connection: http.client.HTTPConnection, deadline: float) -> None:
    """Set the timeout of the next step to the remaining time."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    if connection.sock is not None:
        connection.sock.settimeout(remaining)
