"""Report a build's progress: its record, and its log in CloudWatch Logs."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack_local.codebuild.errors import MachineGoneError, PhaseFailedError
from tritonstack_local.codebuild.records import BuildRecord, CodeBuildTables, LogLocation, Phase, now
from tritonstack_local.scope import Scope

_PAUSE_S = 0.05
# CloudWatch Logs accepts 10,000 events and 1 MiB per call, with 26 bytes of overhead per event. The last
# event of a call is the one that exceeds `_BATCH_BYTES`.
_BATCH_LINES = 10_000
_BATCH_BYTES = 800_000
_LINE_BYTES = 200_000
_EXTRA_BYTES = 26
_WAITING = 2_000
"""Lines that wait to be sent; a build that writes faster waits, too."""

log = logging.getLogger(__name__)


class LogStreamWriter:
    """Sends lines to a log stream until closed."""

    def __init__(self, *, client: Any, location: LogLocation) -> None:
        self._client = client
        self._location = location
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(_WAITING)
        """None ends it."""
        self._latest = 0
        self._thread = threading.Thread(target=self._run, name="log of a build", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Add a line. CloudWatch Logs takes no empty ones, and only in order; the clock may go back."""
        text = line.encode(errors="replace")[:_LINE_BYTES].decode(errors="ignore") or " "
        self._latest = max(self._latest, int(datetime.now(UTC).timestamp() * 1000))
        self._waiting.put({"timestamp": self._latest, "message": f"{text}\n"})

    def close(self) -> None:
        """Send the rest and stop."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        group, stream = self._location.group, self._location.stream
        try:
            try:
                self._client.create_log_group(logGroupName=group)
            except ClientError as error:
                if aws_error_code(error) != "ResourceAlreadyExistsException":  # the stack's
                    raise
            self._client.create_log_stream(logGroupName=group, logStreamName=stream)
            for batch in self._batches():
                self._client.put_log_events(logGroupName=group, logStreamName=stream, logEvents=batch)
        except Exception as error:  # without this thread, the build would wait for it forever
            log.warning("stopped copying the log %s to CloudWatch Logs: %s", self._location, error)
            for _ in self._batches():
                pass  # the build goes on

    def _batches(self) -> Iterator[list[dict[str, Any]]]:
        """Yield what waits, call by call, until the end."""
        while (event := self._waiting.get()) is not None:
            time.sleep(_PAUSE_S)
            batch, size = [event], _size(event)
            while size < _BATCH_BYTES and len(batch) < _BATCH_LINES and (event := self._next()) is not None:
                batch.append(event)
                size += _size(event)
            yield batch

    def _next(self) -> dict[str, Any] | None:
        """Return the next event, if one waits already."""
        with suppress(queue.Empty):
            event = self._waiting.get_nowait()
            if event is None:
                self._waiting.put(None)  # for `_batches`
            return event
        return None


def _size(event: dict[str, Any]) -> int:
    return len(event["message"].encode()) + _EXTRA_BYTES


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

    def open_log(self, client: Any, location: LogLocation | None) -> None:
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
