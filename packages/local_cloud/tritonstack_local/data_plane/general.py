"""The general server: it answers every request but the data plane's, in a thread per connection."""

from __future__ import annotations

import io
import logging
import socket
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import make_server

from tritonstack_local.access.framing import dechunked, framing_failure, rejecting_malformed_bodies
from tritonstack_local.access.guard import SENT_REQUEST, Guard
from tritonstack_local.signatures.requests import SentRequest

_log = logging.getLogger(__name__)


class HandedOverSocket(socket.socket):
    """A connection, and what was already received from it."""

    received: bytes = b""


class GeneralServer:
    """Serves connections that were accepted elsewhere; each ends after one response."""

    def __init__(self, guard: Guard, *, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        self._server = make_server(
            host,
            port,
            rejecting_malformed_bodies(guard),
            threaded=True,
            request_handler=_RequestHandler,
            fd=listener.fileno(),
        )
        self._server.server_close()  # its own descriptor of the listener, at which it never listens

    def take_over(self, connection: socket.socket, received: bytes) -> None:
        """Serve a connection in a thread of its own."""
        handed = HandedOverSocket(fileno=connection.detach())
        handed.received = received
        self._server.process_request(handed, handed.getpeername())


class _Replayed(io.RawIOBase):
    """Some bytes, and then a stream."""

    def __init__(self, received: bytes, stream: io.BufferedIOBase) -> None:
        self._received = memoryview(received)
        self._stream = stream

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next piece."""
        if not self._received:
            return self._stream.readinto1(buffer)
        taken, self._received = self._received[: len(buffer)], self._received[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


class _RequestHandler(MotoRequestHandler):
    """Logs requests to the cloud's log instead of standard error, without colors."""

    request: HandedOverSocket

    def setup(self) -> None:
        """Read what the data plane has received first."""
        super().setup()
        self.rfile = io.BufferedReader(_Replayed(self.request.received, self.rfile))

    def make_environ(self) -> dict[str, Any]:
        """Keep the original request: its signature covers it."""
        words = self.requestline.split()
        target = words[1] if len(words) > 1 else ""
        sent = SentRequest(self.command, target, tuple(self.headers.items()))
        environ = super().make_environ()
        return {**environ, SENT_REQUEST: sent, "wsgi.input": dechunked(environ, self.rfile)}

    def parse_request(self) -> bool:
        """Reject a request with an ambiguous length."""
        if not super().parse_request():
            return False
        failure = framing_failure(self.headers)
        if failure is not None:
            self.send_error(400, failure)
            return False
        return True

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's own signature
        level = logging.ERROR if type == "error" else logging.DEBUG
        _log.log(level, message, *args)
