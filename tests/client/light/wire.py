"""An HTTP server for tests that answers with given bytes on persistent connections, and records requests."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

RESET = object()
"""An answer: reset the connection."""
CLOSE = object()
"""An answer: close the connection without a reply."""
CUT = b"\0cut"
"""The end of an answer after which the connection is closed; it is not sent."""


@dataclass(frozen=True)
class WireRequest:
    """One request as it arrived."""

    connection: int
    target: str
    headers: dict[str, str]
    body: bytes


def reply(body: bytes = b"{}", *, status: int = 200, content_type: str = "application/json", **headers: str):
    """Return the bytes of an HTTP/1.1 reply."""
    reply_fields = {name.replace("_", "-"): value for name, value in headers.items()}
    fields = {"Content-Type": content_type, "Content-Length": str(len(body)), **reply_fields}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Words\r\n{lines}\r\n".encode() + body


@dataclass
class WireServer:
    """A server whose `answer` gets each request and returns bytes, RESET or CLOSE."""

    answer: Callable[[WireRequest], object] = lambda request: reply()
    tls: ssl.SSLContext | None = None
    close_after_reply: bool = False
    requests: list[WireRequest] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)

    def __post_init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        scheme = "http" if self.tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close_connections(self):
        """Close every connection, as a server does with idle ones."""
        for connection in self.connections:
            with contextlib.suppress(OSError):  # the client closed it first
                connection.shutdown(socket.SHUT_RDWR)

    def stop(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.close_connections()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number = len(self.connections)
            if self.tls is not None:
                try:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                except OSError:
                    connection.close()
                    continue
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection, number):
        try:
            with connection, connection.makefile("rb") as incoming:
                while (request := self._read(incoming, number)) is not None:
                    self.requests.append(request)
                    answer = self.answer(request)
                    if answer is RESET:
                        linger = struct.pack("ii", 1, 0)
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    if answer in (RESET, CLOSE):
                        return
                    connection.sendall(answer.removesuffix(CUT))
                    if self.close_after_reply or answer.endswith(CUT):
                        return
        except (OSError, ValueError):
            return

    @staticmethod
    def _read(incoming, number):
        line = incoming.readline()
        if not line:
            return None
        headers = {}
        while (header := incoming.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = incoming.read(int(headers.get("content-length", 0)))
        return WireRequest(number, line.split()[1].decode(), headers, body)
