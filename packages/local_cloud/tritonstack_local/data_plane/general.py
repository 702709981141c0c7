"""The general server: it answers every request but the data plane's, in a thread per connection."""

from __future__ import annotations

import io
import logging
import math
import socket
import sys
import threading
import time
from collections import deque
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import make_server

from tritonstack_local.access.framing import dechunked, rejecting_malformed_bodies
from tritonstack_local.access.guard import BODY, SENT_REQUEST, Guard
from tritonstack_local.access.requests import SentRequest

_MOST_THREADS = 256
_MOST_WAITING = 256
_CLIENT = ("127.0.0.1", 0)
_SILENCE_S = 60.0
"""Longest time without any byte from the client."""

_log = logging.getLogger(__name__)


class HandedOverSocket(socket.socket):
    """A connection, and what was already received from it."""

    received: bytes = b""


class GeneralServer:
    """Serves connections that were accepted elsewhere; each ends after one response.

    Connections beyond the number of threads wait for one, and beyond that they are closed.
    """

    def __init__(self, guard: Guard, *, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        self._server: Any = make_server(
            host,
            port,
            rejecting_malformed_bodies(guard),
            threaded=True,
            request_handler=_RequestHandler,
            fd=listener.fileno(),
        )
        vars(self._server)["handle_error"] = _log_error
        self._lock = threading.Lock()
        self._threads = 0
        self._waiting: deque[HandedOverSocket] = deque()
        self._server.server_close()  # its own descriptor of the listener, at which it never listens

    def take_over(self, connection: socket.socket, received: bytes) -> None:
        """Serve a connection in a thread."""
        handed = HandedOverSocket(fileno=connection.detach())
        handed.received = received
        with self._lock:
            if self._threads == _MOST_THREADS:
                if len(self._waiting) < _MOST_WAITING:
                    self._waiting.append(handed)
                else:
                    handed.close()
                return
            self._threads += 1
        threading.Thread(target=self._serve, args=(handed,), daemon=True).start()

    def _serve(self, handed: HandedOverSocket) -> None:
        """Serve a connection, and then those that wait for a thread."""
        current: HandedOverSocket | None = handed
        while current is not None:
            self._server.process_request_thread(current, _CLIENT)
            with self._lock:
                current = self._waiting.popleft() if self._waiting else None
                self._threads -= current is None


def _log_error(request: Any, client_address: Any) -> None:
    """Log an error outside of the application, such as one of a client that is gone, without a traceback."""
    del request, client_address
    _log.info("a connection ended: %r", sys.exception())


class _Replayed(io.RawIOBase):
    """Some bytes, and then a stream."""

    def __init__(self, received: bytes, stream: io.BufferedIOBase) -> None:
        self._received = memoryview(received)
        self._stream = stream
        self.deadline = math.inf
        """When reading fails; a client that sends a byte from time to time is never silent."""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next piece."""
        if time.monotonic() > self.deadline:
            raise TimeoutError("the client takes too long to send the request")
        if not self._received:
            return self._stream.readinto1(buffer)
        taken, self._received = self._received[: len(buffer)], self._received[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


class _RequestHandler(MotoRequestHandler):
    """Logs requests to the cloud's log instead of standard error, without colors."""

    request: HandedOverSocket
    timeout = _SILENCE_S

    def setup(self) -> None:
        """Read what the data plane has received first."""
        super().setup()
        self._replayed = _Replayed(self.request.received, self.rfile)
        self.rfile = io.BufferedReader(self._replayed)

    def make_environ(self) -> dict[str, Any]:
        """Keep the original request: its signature covers it."""
        words = self.requestline.split()
        target = words[1] if len(words) > 1 else ""
        sent = SentRequest(self.command, target, tuple(self.headers.items()))
        environ = super().make_environ()
        body = {BODY: self._replayed, "wsgi.input": dechunked(environ, self.rfile)}
        return {**environ, **body, SENT_REQUEST: sent}

    def log_error(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's own signature
        """Log a client's error."""
        self.log("info", format, *args)

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's own signature
        level = logging.ERROR if type == "error" else logging.DEBUG
        _log.log(level, message, *args)
