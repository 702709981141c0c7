"""Pass requests on the loopback interface to the latest server of a model, with SageMaker's paths."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tritonstack.base.error_kinds import LocalCloudError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.foreign_pages import foreign_reason
from tritonstack.triton import TritonServer

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


PASSED_ON = ("content-type", "accept", "x-amzn-sagemaker-custom-attributes")
LONGEST_REQUEST = 64 << 20
REQUEST_WITHIN_S = 60.0
"""SageMaker's own limit."""
DRAIN_S = 60.0


class ModelFront:
    """The address of a model; the server behind it is exchanged without failing a request."""

    def __init__(self, port: int) -> None:
        self._http = _HttpServer(port, _Handler)
        self._http.front = self
        self._server: TritonServer | None = None
        self._running: dict[int, int] = {}
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address."""
        return f"http://{HOST}:{self._http.port}"

    def exchange(self, server: TritonServer) -> TritonServer | None:
        """Pass requests to another server; return the former one when it has answered all of its requests."""
        with self._changed:
            former, self._server = self._server, server
            self._changed.wait_for(lambda: not self._running.get(id(former)), DRAIN_S)
        return former

    @contextmanager
    def current(self) -> Iterator[TritonServer | None]:
        """Use the current server; it is not stopped meanwhile."""
        with self._changed:
            server = self._server
            self._running[id(server)] = self._running.get(id(server), 0) + 1
        try:
            yield server
        finally:
            with self._changed:
                self._running[id(server)] -= 1
                self._changed.notify_all()

    def close(self) -> TritonServer | None:
        """Stop listening; return the server, which still runs."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        return self._server


class _HttpServer(LoopbackServer):
    front: ModelFront


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer

    def do_GET(self) -> None:  # the name is the base class's
        if self._admits("GET"):
            self._pass_on("GET", "/ping", b"")

    def do_POST(self) -> None:  # the name is the base class's
        if not self._admits("POST"):
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_REQUEST:
            self.close_connection = True
            self._reject(
                HTTPStatus.BAD_REQUEST, f"expected Content-Length, at most {LONGEST_REQUEST >> 20} MiB"
            )
            return
        self._pass_on("POST", "/invocations", self.rfile.read(int(length)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Print nothing for each request."""

    def _admits(self, method: str) -> bool:
        """Return whether a request may be answered; reject those of web pages."""
        headers = {name.lower(): self.headers.get_all(name, []) for name in self.headers}
        reason = foreign_reason(method, headers, port=self.server.port, subject="The model's server")
        if reason is None:
            return True
        self.close_connection = True  # its body is not read
        self._reject(HTTPStatus.FORBIDDEN, reason)
        return False

    def _pass_on(self, method: str, path: str, body: bytes) -> None:
        if self.path != path:
            self._reject(HTTPStatus.NOT_FOUND, "use GET /ping or POST /invocations")
            return
        headers = {name: value for name in PASSED_ON if (value := self.headers.get(name))}
        with self.server.front.current() as server:
            if server is None:
                self._reject(HTTPStatus.SERVICE_UNAVAILABLE, "no version of the model is served yet")
                return
            try:
                reply = server.request(method, path, body=body, headers=headers, timeout_s=REQUEST_WITHIN_S)
            except TritonstackError as error:
                self._reject(HTTPStatus.BAD_GATEWAY, error.message)
                return
        self._answer(reply.status, reply.headers.get("content-type", "application/json"), reply.body)

    def _reject(self, status: HTTPStatus, message: str) -> None:
        self._answer(status, "application/json", json.dumps({"error": message}).encode())

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
