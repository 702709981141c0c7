"""Report a build's progress: its record, its log in CloudWatch Logs, and its metrics.

CloudWatch Logs holds its content in memory. So the middle of a log larger than `ROOM_BYTES` is omitted: its
last lines, which explain how the build ended, are sent at the end.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack_local.cloudwatch.metrics import Datum
from tritonstack_local.codebuild.errors import MachineGoneError, PhaseFailedError
from tritonstack_local.codebuild.records import BuildRecord, CodeBuildTables, LogLocation, Phase, now
from tritonstack_local.scope import Scope

_NAMESPACE = "AWS/CodeBuild"


def measured(build: BuildRecord) -> Iterator[Datum]:
    """Return the values."""
    assert build.ended is not None  # noqa: S101 - only finished builds are measured
    succeeded = build.status == "SUCCEEDED"
    values = {
        "Builds": (1.0, "Count"),
        "SucceededBuilds" if succeeded else "FailedBuilds": (1.0, "Count"),
        "Duration": ((build.ended - build.started).total_seconds(), "Seconds"),
    }
    for dimensions in ({"ProjectName": build.project}, {}):
        for name, (value, unit) in values.items():
            yield Datum(_NAMESPACE, name, dimensions, value, unit)


_PAUSE_S = 0.2
# CloudWatch Logs accepts 10,000 events and 1 MiB per call, with 26 bytes of overhead per event.
_BATCH_LINES = 10_000
_BATCH_BYTES = 1 << 20
_LINE_BYTES = 200_000
_EXTRA_BYTES = 26
ROOM_BYTES = 16 << 20
LAST_LINES = 1_000

log = logging.getLogger(__name__)

_Line = tuple[int, str]
"""Time in milliseconds, and text."""


class LogStreamWriter:
    """Sends lines to a log stream until closed. `scope` is None for builds without log."""

    def __init__(self, *, client: Any, scope: LogLocation | None) -> None:
        self._client = client
        self._scope = scope
        self._waiting: list[_Line] = []
        self._room = ROOM_BYTES
        self._last: deque[_Line] = deque(maxlen=LAST_LINES)
        self._beyond = self._latest = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log of a build", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Add a line of a command's output."""
        with self._lock:
            self._append(line)

    def log_line(self, line: str) -> None:
        """Add a line of CodeBuild itself."""
        self.write(f"{_own()} {line}")

    def close(self) -> None:
        """Send the rest and stop."""
        left_out = self._beyond - len(self._last)
        if left_out > 0:
            self._waiting.append(_line(f"{_own()} {left_out} lines omitted here."))
        self._waiting.extend(self._last)
        self._closed.set()
        self._thread.join()

    def _append(self, line: str) -> None:
        self._room -= len(line) + _EXTRA_BYTES
        if self._room > 0:
            self._waiting.append(_line(line))
            return
        if not self._beyond:
            notice = f"This log is large: its last {LAST_LINES} more lines follow when the build ends."
            self._waiting.append(_line(f"{_own()} {notice}"))
        self._beyond += 1
        self._last.append(_line(line))

    def _run(self) -> None:
        try:
            if self._scope is not None:
                self._make_stream(self._scope)
            while not self._closed.wait(_PAUSE_S):
                self._send()
            self._send()
        except (ClientError, BotoCoreError) as error:
            log.warning("stopped copying the log %s to CloudWatch Logs: %s", self._scope, error)
            with self._lock:
                # The queue is no longer drained.
                self._room = 0

    def _make_stream(self, scope: LogLocation) -> None:
        try:
            self._client.create_log_group(logGroupName=scope.group)
        except ClientError as error:
            if aws_error_code(error) != "ResourceAlreadyExistsException":
                raise
            log.debug("the stack created %s", scope.group)
        self._client.create_log_stream(logGroupName=scope.group, logStreamName=scope.stream)

    def _send(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if self._scope is None:
            return
        for batch in _batches(self._in_order(waiting)):
            self._client.put_log_events(
                logGroupName=self._scope.group, logStreamName=self._scope.stream, logEvents=batch
            )

    def _in_order(self, lines: list[_Line]) -> Iterator[_Line]:
        """Yield lines in order of time, which CloudWatch Logs requires; the clock may go back."""
        for moment, text in lines:
            self._latest = max(self._latest, moment)
            yield self._latest, text


def _line(text: str) -> _Line:
    return int(datetime.now(UTC).timestamp() * 1000), text


def _own() -> str:
    """Return the prefix of CodeBuild's own lines."""
    return f"[Container] {datetime.now(UTC):%Y/%m/%d %H:%M:%S.%f}"


def _batches(lines: Iterable[_Line]) -> Iterator[list[dict[str, Any]]]:
    """Split lines into calls within the limits of CloudWatch Logs. Events cannot be empty."""
    batch: list[dict[str, Any]] = []
    size = 0
    for milliseconds, line in lines:
        text = line.encode(errors="replace")[:_LINE_BYTES].decode(errors="ignore") or " "
        added = len(text.encode()) + _EXTRA_BYTES
        if batch and (len(batch) == _BATCH_LINES or size + added > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append({"timestamp": milliseconds, "message": f"{text}\n"})
        size += added + 1
    if batch:
        yield batch


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

    def open_log(self, client: Any, scope: LogLocation | None) -> None:
        """Start the log; earlier progress is only in the record."""
        self._log = LogStreamWriter(client=client, scope=scope)

    def on_line(self, line: str) -> None:
        """Log a line of a command's output."""
        if self._log is not None:
            self._log.write(line)

    def log_line(self, line: str) -> None:
        """Log a line of CodeBuild itself."""
        if self._log is not None:
            self._log.log_line(line)

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
