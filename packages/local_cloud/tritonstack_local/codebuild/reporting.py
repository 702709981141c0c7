"""Report a build's progress: its record, and its log in CloudWatch Logs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack_local.codebuild.records import (
    BuildRecord,
    CodeBuildTables,
    MachineGoneError,
    Phase,
    PhaseFailedError,
    now,
)
from tritonstack_local.scope import Scope

_PAUSE_S = 0.05
# CloudWatch Logs accepts 10,000 events and 1 MiB per call, with 26 bytes of overhead per event.
_BATCH_LINES = 10_000
_BATCH_BYTES = 1 << 20
_LINE_BYTES = 200_000
_EXTRA_BYTES = 26

log = logging.getLogger(__name__)


class LogStreamWriter:
    """Sends lines to a log stream: soon in a thread, or at once when a call is full."""

    def __init__(self, *, client: Any, location: Mapping[str, str]) -> None:
        self._client = client
        self._stream = {"logGroupName": location["groupName"], "logStreamName": location["streamName"]}
        self._events: list[dict[str, Any]] = []
        self._size = self._latest = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._call(self._create)
        self._thread = threading.Thread(target=self._run, name="log of a build", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Add a line. CloudWatch Logs takes no empty ones, and only in order; the clock may go back."""
        data = line.encode(errors="replace")[:_LINE_BYTES].decode(errors="ignore") or " "
        size = len(data.encode()) + 1 + _EXTRA_BYTES
        with self._lock:
            if self._size + size > _BATCH_BYTES or len(self._events) == _BATCH_LINES:
                self._send()
            self._latest = max(self._latest, int(datetime.now(UTC).timestamp() * 1000))
            self._events.append({"timestamp": self._latest, "message": f"{data}\n"})
            self._size += size

    def close(self) -> None:
        """Send the rest and stop."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ended.wait(_PAUSE_S)
            with self._lock:
                self._send()

    def _send(self) -> None:
        if self._events:
            self._call(self._client.put_log_events, logEvents=self._events)
        self._events, self._size = [], 0

    def _create(self, **stream: str) -> None:
        try:
            self._client.create_log_group(logGroupName=stream["logGroupName"])
        except ClientError as error:
            if aws_error_code(error) != "ResourceAlreadyExistsException":  # the stack's
                raise
        self._client.create_log_stream(**stream)

    def _call(self, operation: Callable[..., Any], **arguments: Any) -> None:
        try:
            operation(**self._stream, **arguments)
        except Exception as error:  # a build does not fail because of its log
            log.warning("cannot copy the log %s to CloudWatch Logs: %s", self._stream, error)


class BuildJournal:
    """Updates the build's record. `checkpoint` raises if the build was stopped or timed out."""

    def __init__(
        self, store: CodeBuildTables, scope: Scope, build_id: str, *, checkpoint: Callable[[], None]
    ) -> None:
        self._store = store
        self._scope = scope
        self._id = build_id
        self._checkpoint = checkpoint
        self._log: LogStreamWriter | None = None

    @property
    def build(self) -> BuildRecord:
        """The current record of the build."""
        build = self._store.builds.get(self._scope, self._id)
        assert build is not None  # noqa: S101 - builds are not deleted
        return build

    def change(self, step: Callable[[BuildRecord], BuildRecord]) -> None:
        """Change fields of the record."""
        self._store.builds.change(self._scope, self._id, step)

    def open_log(self, client: Any, location: Mapping[str, str] | None) -> None:
        """Start the log, unless the project has none; earlier progress is only in the record."""
        self._log = LogStreamWriter(client=client, location=location) if location is not None else None

    def on_line(self, line: str) -> None:
        """Log a line of a command's output."""
        if self._log is not None:
            self._log.write(line)

    def log_line(self, line: str) -> None:
        """Log a line of CodeBuild itself."""
        self.on_line(f"[Container] {datetime.now(UTC):%Y/%m/%d %H:%M:%S.%f} {line}")

    def close(self) -> None:
        """Send the rest of the log."""
        if self._log is not None:
            self._log.close()

    @contextmanager
    def phase(self, kind: str) -> Iterator[None]:
        """Run a phase and record its end; the end of the build ends the open phase too."""
        phase = Phase(kind, now())
        self.change(lambda build: build.with_phase(phase))
        try:
            self._checkpoint()
            yield
            self._checkpoint()
        except PhaseFailedError as failed:
            self._checkpoint()  # a stopped build may fail because it was stopped
            self._end(phase.closed("FAILED", failed.code, failed.message))
            raise
        except MachineGoneError:
            self._checkpoint()
            raise
        self._end(phase.closed("SUCCEEDED"))

    def _end(self, phase: Phase) -> None:
        self.change(lambda build: build.with_phase(phase))
        self.log_line(f"Phase complete: {phase.type} State: {phase.status}")
        self.log_line(f"Phase context status code: {phase.code} Message: {phase.message}")
