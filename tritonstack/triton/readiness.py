"""Wait for a server, send it requests, and explain missing responses."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tritonstack.triton.connections import (
    NO_HEADERS,
    AsyncConnectionPool,
    ConnectionPool,
    ResponseStream,
    TritonResponse,
    open_stream,
)
from tritonstack.triton.errors import (
    TritonEndedError,
    TritonFailedError,
    TritonRequestError,
    TritonTimeoutError,
    TritonUnreachableError,
)

# Read a server's log: its end, and the lines that explain a failure.


# Triton's error lines begin with E and the date; its last line after a failed start begins with "error:".
_ERROR_LINE = re.compile(r"E\d{4} |error: |ERROR: |\w*Error: ")
# | model | version | UNAVAILABLE: reason |, possibly split into several rows by line breaks in the reason
_REASON_ROW = re.compile(r"\|\s*\S+\s*\|\s*\d+\s*\|\s*UNAVAILABLE: ")
# Logged by every server on a machine without a GPU.
_HARMLESS = ("CudaDriverHelper has not been initialized", "CUDA driver version is insufficient")
_TAIL_BYTES = 1 << 18
_LONGEST_LINE = 600


def tail(log: Path, lines: int) -> str:
    """Return the last lines of the log; empty if there is no log yet."""
    return "\n".join(_last_lines(log)[-lines:])


def reasons(log: Path, *, limit: int = 12) -> str:
    """Return the lines that explain a failure, without duplicates; else the end of the log."""
    return errors(log, limit=limit) or tail(log, limit)


def errors(log: Path, *, limit: int) -> str:
    """Return the last lines that report errors, shortened, without duplicates; empty if there is none."""
    lines: dict[str, None] = {}
    for line in _last_lines(log):
        match = _ERROR_LINE.match(line) or _REASON_ROW.match(line)
        if match and not any(text in line for text in _HARMLESS):
            shown = " ".join(line.split())
            lines[shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]} ..."] = None
    return "\n".join(list(lines)[-limit:])


def _last_lines(log: Path) -> list[str]:
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()


_POLL_S = 0.02
_LOG_LINES = 40


class SageMakerServer:
    """A server under SageMaker's container contract, called on its port from any number of threads."""

    def __init__(
        self,
        *,
        name: str,
        connect: Callable[[], socket.socket],
        exit_status: Callable[[], int | None],
        log_path: Path,
        routes: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """`name` is the server's name in messages; `exit_status` returns None while it runs.

        `routes` has the server's own paths for those of SageMaker's contract, where they differ.
        """
        self.log_path = log_path
        self._connect = connect
        self._routes = routes
        self._server_name = name
        self._read_exit_status = exit_status
        self._pool = ConnectionPool(connect=connect)
        self._async_pool = AsyncConnectionPool(connect=connect)

    def wait_ready(self, *, timeout_s: float) -> None:
        """Return when GET /ping returns 200; raise TritonFailedError if the server ends or time runs out."""
        deadline = time.monotonic() + timeout_s
        while not self._answers_ping(max(0.1, min(5.0, deadline - time.monotonic()))):
            status = self._read_exit_status()
            if status is not None:
                raise self._failed(f"{self._server_name} ended with exit status {status} before it was ready")
            if time.monotonic() > deadline:
                raise self._failed(f"{self._server_name} was not ready within {timeout_s:g} s")
            time.sleep(_POLL_S)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        timeout_s: float = 60.0,
    ) -> TritonResponse:
        """Send one request to the SageMaker port. Any status is a response; raise an error without one."""
        with self._explained():
            return self._pool.request(
                method, self._path(path), body=body, headers=headers, timeout_s=timeout_s
            )

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        timeout_s: float = 60.0,
    ) -> TritonResponse:
        """Send one request from an event loop, the same one for all requests; else as `request`."""
        with self._explained():
            return await self._async_pool.request(
                method, self._path(path), body=body, headers=headers, timeout_s=timeout_s
            )

    async def stream(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        timeout_s: float = 60.0,
    ) -> ResponseStream:
        """Send one request from an event loop; return its response while the body still arrives."""
        with self._explained():
            return await open_stream(
                method,
                self._path(path),
                connect=self._connect,
                body=body,
                headers=headers,
                timeout_s=timeout_s,
            )

    def close_connections(self) -> None:
        """Close idle connections."""
        self._pool.close()
        self._async_pool.close()

    def _answers_ping(self, timeout_s: float) -> bool:
        try:
            return self._pool.request("GET", self._path("/ping"), timeout_s=timeout_s).status == 200
        except TritonRequestError:
            return False

    def _path(self, path: str) -> str:
        return self._routes.get(path, path)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Explain a missing response by the server's end, if it has ended."""
        try:
            yield
        except TritonTimeoutError:
            raise
        except TritonRequestError as error:
            status = self._read_exit_status()
            if status is None:
                raise
            kind = TritonEndedError if isinstance(error, TritonUnreachableError) else TritonFailedError
            raise self._failed(f"{self._server_name} has ended with exit status {status}", kind) from error

    def _failed(self, message: str, kind: type[TritonFailedError] = TritonFailedError) -> TritonFailedError:
        return kind(
            f"{message}:\n{reasons(self.log_path)}",
            log=tail(self.log_path, _LOG_LINES),
            remedy=f"see the log: {self.log_path}",
        )
