"""Run the steps of a build and report their progress."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal, TypeVar

from model_build.library_errors import as_build_error

_IMPORTED = time.monotonic()
Result = TypeVar("Result")


@dataclass(frozen=True)
class Progress:
    """A change of a step's state. `detail` is a short description."""

    step: str
    state: Literal["started", "running", "done", "failed"]
    detail: str = ""
    seconds: float = 0.0


OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Discard progress."""


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Re-raise a Ctrl-C that a library swallowed.

    Exporters run Python callbacks that drop exceptions. What they write after an interrupt is a wrong graph
    and must not become an artifact.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def notify(number: int, frame: FrameType | None) -> None:
        came.append(number)
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, notify)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        if came:
            raise KeyboardInterrupt


def process_seconds() -> float:
    """Return the seconds since this process started; without /proc, since the import of this module."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return time.monotonic() - _IMPORTED
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of the file, in ticks since boot
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


class BuildSteps:
    """Run the steps of one build, and report the start and end of each."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._notify = on_progress
        self.failed = ""
        """The step that failed; cleared when the next one starts."""

    def announce(self, message: str) -> None:
        """Report a wait that is not a step."""
        self._notify(Progress(message, "started"))

    def note(self, name: str, detail: str) -> None:
        """Report what a long step is doing."""
        self._notify(Progress(name, "running", detail))

    def run(self, name: str, action: Callable[[], Result], describe: Callable[[Result], str]) -> Result:
        """Run one step; `describe` summarizes its result."""
        self._notify(Progress(name, "started"))
        self.failed = ""
        begin = time.monotonic()
        try:
            with interrupts_kept():
                result = action()
        except KeyboardInterrupt:
            self._notify(Progress(name, "failed", "stopped", time.monotonic() - begin))
            raise
        except BaseException as error:
            # Rust libraries raise BaseException subclasses, and user code may call sys.exit.
            failure = as_build_error(error)
            self.failed = name
            self._notify(Progress(name, "failed", failure.message, time.monotonic() - begin))
            if failure is error:
                raise
            raise failure from error
        self._notify(Progress(name, "done", describe(result), time.monotonic() - begin))
        return result
