"""Ship a server's log to CloudWatch Logs: one stream per instance.

The server writes its file itself. The disk space of sent lines is freed, except for the last 8 MiB: the file
keeps its length, and the server its place in it, so that no line is lost or sent twice.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.errors import aws_error_code

_PAUSE_S = 1.0
_READ_BYTES = 1 << 18
"""Of a call: as JSON, control characters take six times as much."""
_KEPT_BYTES = 8 << 20
"""Of each log; more than a batch, so that what is not sent yet is kept."""
_PUNCH_HOLE, _KEEP_SIZE = 2, 1
_fallocate = ctypes.CDLL(None).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)

log = logging.getLogger(__name__)


def log_group(endpoint: str) -> str:
    """Return the log group that SageMaker uses for an endpoint."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"


class LogShipper:
    """Sends the output of an instance's containers, until `stop`; then the rest.

    After an error of CloudWatch, it drops the lines. The log of the container before the last one is deleted.
    """

    def __init__(self, *, client: Any, group: str, stream: str, preface: Sequence[str]) -> None:
        self._client = client
        self._names = {"logGroupName": group, "logStreamName": stream}
        self._preface = list(preface)
        self._paths: queue.SimpleQueue[Path] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._run, name=f"log of {group}", daemon=True)
        self._thread.start()

    def follow(self, path: Path) -> None:
        """Continue with another file after the previous one is sent."""
        self._paths.put(path)

    def stop(self) -> None:
        """Send the rest and stop."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        former: Path | None = None
        try:
            self._call(self._make_stream)
            self._send(self._preface)
            while (path := self._next_path()) is not None:
                with path.open("r+b") as file:
                    lines = _Lines(file)
                    while self._paths.empty() and not self._ended.wait(_PAUSE_S):
                        self._send_all(lines.new())
                    self._send_all(chain(lines.new(), lines.rest()))
                if former is not None:
                    former.unlink(missing_ok=True)
                former = path
        except OSError as error:
            log.warning("stopped reading the log of %s: %s", self._names["logGroupName"], error)

    def _call(self, call: Callable[[], object]) -> None:
        """Call CloudWatch, unless it has failed."""
        try:
            if not self._failed:
                call()
        except (ClientError, BotoCoreError) as error:
            self._failed = True
            log.warning("stopped copying the log of %s to CloudWatch: %s", self._names["logGroupName"], error)

    def _next_path(self) -> Path | None:
        while not self._ended.is_set():
            with contextlib.suppress(queue.Empty):
                return self._paths.get(timeout=_PAUSE_S)
        return None if self._paths.empty() else self._paths.get()

    def _make_stream(self) -> None:
        """Create the log group if it is missing; usually the stack creates it."""
        try:
            self._client.create_log_group(logGroupName=self._names["logGroupName"])
        except ClientError as error:
            if aws_error_code(error) != "ResourceAlreadyExistsException":
                raise
        self._client.create_log_stream(**self._names)

    def _send_all(self, batches: Iterable[list[bytes]]) -> None:
        for batch in batches:
            self._send([line.decode(errors="replace").rstrip() for line in batch])

    def _send(self, lines: Iterable[str]) -> None:
        milliseconds = int(time.time() * 1000)
        events = [{"timestamp": milliseconds, "message": line} for line in lines if line]
        if events:
            self._call(partial(self._client.put_log_events, **self._names, logEvents=events))


class _Lines:
    """The lines of a growing file. Incomplete lines wait for their end, unless they are long."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begun = b""

    def new(self) -> Iterator[list[bytes]]:
        """Yield new lines, not too many at once for a call."""
        while chunk := self._file.read(_READ_BYTES):
            *lines, self._begun = (self._begun + chunk).split(b"\n")
            if len(self._begun) >= _READ_BYTES:
                lines, self._begun = [*lines, self._begun], b""
            yield lines
            # Free the disk space of old lines, where the file system can: all usual ones but NFS before 4.2.
            size = self._file.tell() - _KEPT_BYTES
            if size > 0:
                _fallocate(self._file.fileno(), _PUNCH_HOLE | _KEEP_SIZE, 0, size)

    def rest(self) -> Iterator[list[bytes]]:
        """Yield the last incomplete line."""
        yield [self._begun]
