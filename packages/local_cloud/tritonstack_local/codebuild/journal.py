"""What is told of one build while it runs: its record, phase by phase, and its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tritonstack_local.codebuild.build_log import BuildLog
from tritonstack_local.codebuild.faults import MachineGoneError, PhaseFailedError
from tritonstack_local.codebuild.records import BuildRecord, LogPlace, Phase, Store, now
from tritonstack_local.places import Place


class BuildJournal:
    """Keeps the record. `checkpoint` raises when the build has been ended from outside."""

    def __init__(self, store: Store, place: Place, build_id: str, *, checkpoint: Callable[[], None]) -> None:
        self._store = store
        self._place = place
        self._id = build_id
        self._checkpoint = checkpoint
        self._log: BuildLog | None = None

    @property
    def build(self) -> BuildRecord:
        """The build as it is told of now."""
        found = self._store.builds.get(self._place, self._id)
        assert found is not None  # noqa: S101 - builds on their way cannot be deleted
        return found

    def change(self, step: Callable[[BuildRecord], BuildRecord]) -> None:
        """Tell something else of it."""
        self._store.builds.change(self._place, self._id, step)

    def open_log(self, client: Any, place: LogPlace | None) -> None:
        """Begin the log; what is said before is in the record alone."""
        self._log = BuildLog(client=client, place=place)

    def hide(self, secret: str) -> None:
        """Never show this text in the log."""
        if self._log is not None:
            self._log.hide(secret)

    def hear(self, line: str) -> None:
        """Log what a command says."""
        if self._log is not None:
            self._log.write(line)

    def say(self, line: str) -> None:
        """Log what CodeBuild itself says."""
        if self._log is not None:
            self._log.say(line)

    def close(self) -> None:
        """Bring the rest of the log to its place."""
        if self._log is not None:
            self._log.close()

    @contextmanager
    def phase(self, kind: str) -> Iterator[None]:
        """Begin a phase and tell how it ends; what ends the whole build ends its open phase too."""
        phase = Phase(kind, now())
        self.change(lambda build: build.with_phase(phase))
        try:
            self._checkpoint()
            yield
            self._checkpoint()
        except PhaseFailedError as failed:
            self._checkpoint()  # what was ended may fail for that very reason
            self._end(phase.closed("FAILED", failed.code, failed.message))
            raise
        except MachineGoneError:
            self._checkpoint()
            raise
        self._end(phase.closed("SUCCEEDED"))

    def _end(self, phase: Phase) -> None:
        self.change(lambda build: build.with_phase(phase))
        self.say(f"Phase complete: {phase.type} State: {phase.status}")
        self.say(f"Phase context status code: {phase.code} Message: {phase.message}")
