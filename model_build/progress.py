"""The steps of a build, told while they happen to whoever wants to draw them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Literal, TypeVar

from model_build.library_errors import as_build_error

Result = TypeVar("Result")


@dataclass(frozen=True)
class Progress:
    """One step has begun, goes on or has ended. `detail` says in a few words what came of it."""

    step: str
    state: Literal["started", "running", "done", "failed"]
    detail: str = ""
    seconds: float = 0.0


OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """For callers that want only the result."""


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Let no Ctrl-C get lost.

    Exporters run Python from callbacks in which an exception is dropped: what such a library goes on to write
    after an interrupt is another graph than the model's, and must not become an artifact.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears of signals
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


class Steps:
    """Runs the steps of one build and tells of each that it began, and how it ended."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._notify = on_progress
        self.failed = ""
        """The step that failed, until the next one starts."""

    def announce(self, what: str) -> None:
        """Tell of something that takes time and is no step."""
        self._notify(Progress(what, "started"))

    def note(self, name: str, detail: str) -> None:
        """Tell what a step that takes long is doing."""
        self._notify(Progress(name, "running", detail))

    def run(self, name: str, action: Callable[[], Result], describe: Callable[[Result], str]) -> Result:
        """Run one step; `describe` puts its result into a few words."""
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
            # Libraries written in Rust raise exceptions that are no Exception, and code may call sys.exit.
            failure = as_build_error(error)
            self.failed = name
            self._notify(Progress(name, "failed", failure.message, time.monotonic() - begin))
            if failure is error:
                raise
            raise failure from error
        self._notify(Progress(name, "done", describe(result), time.monotonic() - begin))
        return result
