"""Show the running steps of a command: live lines on a terminal, one line per finished step everywhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tritonstack.cli.rendering.text import HangingText, printable

_FRAMES, _ASCII_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
_FRAMES_PER_S = 8
_NOTEWORTHY_S = 1.0
"""A shorter step leaves a line only if it failed, logged a line, or has a result."""


class ConsoleSteps:
    """The running steps of a command. They may run in threads, and inside of each other."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.interactive = console.is_terminal and not console.is_dumb_terminal
        self._frames = _FRAMES if console.encoding.startswith("utf") else _ASCII_FRAMES
        self._lock = threading.Lock()
        self._running: dict[ConsoleStep, None] = {}
        self._live: Live | None = None

    @contextmanager
    def step(self, title: str, *, label: str = "") -> Iterator[ConsoleStep]:
        """Show one step; `label` marks its lines."""
        step = ConsoleStep(self, title, label)
        self._begin(step)
        try:
            yield step
        finally:
            self._end(step)
        if step.is_noteworthy:
            self.console.print(step.result())

    def _begin(self, step: ConsoleStep) -> None:
        with self._lock:
            self._running[step] = None
            if self.interactive and self._live is None:
                self._live = Live(
                    get_renderable=self._lines,
                    console=self.console,
                    transient=True,
                    redirect_stdout=False,
                    refresh_per_second=_FRAMES_PER_S,
                )
                self._live.start(refresh=True)

    def _end(self, step: ConsoleStep) -> None:
        with self._lock:
            del self._running[step]
            if not self._running and self._live is not None:
                self._live.stop()
                self._live = None

    def _lines(self) -> Group:
        """Return one line per running step. A thread of the live display calls this."""
        frame = self._frames[int(time.monotonic() * _FRAMES_PER_S) % len(self._frames)]
        return Group(*(step.progress(frame) for step in tuple(self._running)))


class ConsoleStep:
    """A running step."""

    def __init__(self, steps: ConsoleSteps, title: str, label: str = "") -> None:
        self._steps = steps
        self._label = f"{label}: " if label else ""
        self._state = ""
        self._started = time.monotonic()
        self._logged = False
        self.title = title
        self.detail = ""
        """The result, for the line that remains."""
        self.failed = False
        """Whether it failed while others continue; the errors are reported at the end."""

    @property
    def interactive(self) -> bool:
        """Return whether a terminal shows live updates."""
        return self._steps.interactive

    @property
    def is_noteworthy(self) -> bool:
        """Return whether a line about the finished step remains."""
        return bool(self.failed or self.detail or self._logged or self._seconds >= _NOTEWORTHY_S)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def update(self, text: str) -> None:
        """Show the current state; a terminal shows only the latest."""
        self._state = text

    def log(self, text: str) -> None:
        """Print a line that remains."""
        self._logged = True
        line = Text(printable(f"  {self._label}{text}"), "dim")
        if self.interactive:
            self._steps.console.print(HangingText(line), soft_wrap=False)
        else:
            self._steps.console.print(line)

    def progress(self, frame: str) -> Text:
        """Return the live line: the step, its time so far, and its current state."""
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{frame} ", style="cyan").append(printable(self.title))
        if self._seconds >= _NOTEWORTHY_S:
            line.append(f"  {_duration(self._seconds)}", style="dim")
        return line.append(f"  {printable(self._state)}" if self._state else "", style="dim")

    def result(self) -> Text:
        """Return the line that remains of the finished step."""
        line = Text()
        line.append("✗ " if self.failed else "✓ ", style="red" if self.failed else "green")
        line.append(printable(self.title)).append(f"  {printable(self.detail)}" if self.detail else "")
        return line.append(f" ({self._seconds:.1f} s)", style="dim")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
