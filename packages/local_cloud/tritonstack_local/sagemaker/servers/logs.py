"""Ship a server's log to CloudWatch Logs: one stream per instance."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from botocore.exceptions import BotoCoreError, ClientError

_PAUSE_S = 0.5
_BATCH_LINES = 1000
# Longer lines are split: CloudWatch accepts 256 KiB, and an invalid UTF-8 byte becomes three bytes.
_PIECE_BYTES = 80_000
_BATCH_BYTES = 900_000
_READ_BYTES = 1 << 20

log = logging.getLogger(__name__)


def log_group(endpoint: str) -> str:
    """Return the log group that SageMaker uses for an endpoint."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"


class LogShipper:
    """Sends the output of an instance's containers, until `stop`; then the rest.

    Stops if CloudWatch fails.
    """

    def __init__(self, *, client: Any, group: str, stream: str, preface: Sequence[str]) -> None:
        self._client = client
        self._group = group
        self._stream = stream
        self._preface = preface
        self._paths: queue.SimpleQueue[Path] = queue.SimpleQueue()
        self._ended = threading.Event()
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
        try:
            self._make_stream()
            self._send(list(self._preface))
            while (path := self._next_path()) is not None:
                with path.open("rb") as file:
                    lines = _Lines(file)
                    while self._paths.empty() and not self._ended.wait(_PAUSE_S):
                        self._send_all(lines.new())
                    self._send_all(lines.new())
                    self._send_all(lines.rest())
        except (ClientError, BotoCoreError, OSError) as error:
            log.warning("stopped copying the log of %s to CloudWatch Logs: %s", self._group, error)

    def _next_path(self) -> Path | None:
        while not self._ended.is_set():
            with contextlib.suppress(queue.Empty):
                return self._paths.get(timeout=_PAUSE_S)
        return None if self._paths.empty() else self._paths.get()

    def _make_stream(self) -> None:
        """Create the log group if it is missing; usually the stack creates it."""
        found = self._client.describe_log_groups(logGroupNamePrefix=self._group)["logGroups"]
        if all(group["logGroupName"] != self._group for group in found):
            with contextlib.suppress(self._client.exceptions.ResourceAlreadyExistsException):
                self._client.create_log_group(logGroupName=self._group)  # another instance may be first
        self._client.create_log_stream(logGroupName=self._group, logStreamName=self._stream)

    def _send_all(self, lines: Iterator[bytes]) -> None:
        texts = (line.decode(errors="replace").rstrip() for line in lines)
        for batch in _batches(text for text in texts if text):
            self._send(batch)

    def _send(self, lines: list[str]) -> None:
        milliseconds = int(time.time() * 1000)
        self._client.put_log_events(
            logGroupName=self._group,
            logStreamName=self._stream,
            logEvents=[{"timestamp": milliseconds, "message": line} for line in lines],
        )


class _Lines:
    """The lines of a growing file. Incomplete lines wait for their end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begun = b""

    def new(self) -> Iterator[bytes]:
        """Yield new lines."""
        while chunk := self._file.read(_READ_BYTES):
            *lines, self._begun = (self._begun + chunk).split(b"\n")
            for line in lines:
                yield from _pieces(line)
            *full, self._begun = _pieces(self._begun)
            yield from full

    def rest(self) -> Iterator[bytes]:
        """Yield the last incomplete line."""
        yield self._begun


def _pieces(line: bytes) -> list[bytes]:
    return [line[at : at + _PIECE_BYTES] for at in range(0, len(line), _PIECE_BYTES)] or [b""]


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    """Split lines into calls within the limits of CloudWatch Logs."""
    batch: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode())
        if batch and (len(batch) == _BATCH_LINES or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += length
    if batch:
        yield batch
