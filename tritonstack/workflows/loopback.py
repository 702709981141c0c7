"""A web server on the loopback interface of this machine."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tritonstack.base.error_kinds import LocalCloudError

HOST = "127.0.0.1"


class LoopbackServer(ThreadingHTTPServer):
    """Answers each connection in a thread; port 0 is a free one."""

    daemon_threads = True

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        try:
            super().__init__((HOST, port), handler)
        except OSError as error:
            raise LocalCloudError(
                f"cannot listen on {HOST}:{port}: {error.strerror}", remedy="choose another --port"
            ) from error

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing for a client that leaves before its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
