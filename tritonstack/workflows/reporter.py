"""Progress reports of workflows. The command line implements Reporter; scripts can use NullReporter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol


class Step(Protocol):
    """A step in progress: entering its context starts it, leaving ends it."""

    detail: str
    """The outcome, shown when the step ends."""
    failed: bool
    """True if the step failed while others continue; the error is raised when all have ended."""

    @property
    def interactive(self) -> bool:
        """True if someone sees each update."""

    def update(self, text: str) -> None:
        """Report progress; only the latest text is shown."""

    def log(self, text: str) -> None:
        """Report a line that remains visible."""


class Steps(Protocol):
    """Steps that run in parallel; safe to use from several threads."""

    def step(self, title: str, *, label: str = "") -> AbstractContextManager[Step]:
        """Start a step; `label` prefixes its log lines."""


class Reporter(Protocol):
    """Receives the progress of a workflow."""

    def note(self, text: str) -> None:
        """Report one line."""

    def step(self, title: str) -> AbstractContextManager[Step]:
        """Start a step."""

    def steps(self) -> AbstractContextManager[Steps]:
        """Start a group of parallel steps."""


@dataclass
class SilentStep:
    """A step that reports nothing."""

    detail: str = ""
    failed: bool = False
    interactive: bool = False

    def update(self, text: str) -> None:
        """Ignore progress."""

    def log(self, text: str) -> None:
        """Ignore a line."""


class NullReporter:
    """Ignores every report."""

    def note(self, text: str) -> None:
        """Ignore a line."""

    @contextmanager
    def step(self, title: str, *, label: str = "") -> Iterator[Step]:
        """Start a step that reports nothing."""
        yield SilentStep()

    @contextmanager
    def steps(self) -> Iterator[Steps]:
        """Start parallel steps that report nothing."""
        yield self
