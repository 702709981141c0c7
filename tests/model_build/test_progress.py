"""Progress of a build's steps, and Ctrl-C at any point."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from model_build.errors import ExportError
from model_build.progress import BuildSteps, Progress


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Deliver Ctrl-C, which a background test runner ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def swallow() -> str:
    with suppress(KeyboardInterrupt):
        press_ctrl_c()
    return "another graph"


def disguise() -> str:
    try:
        press_ctrl_c()
    except KeyboardInterrupt as error:
        raise ExportError("cannot be exported") from error
    return "never"


@pytest.mark.parametrize("action", [press_ctrl_c, swallow, disguise])
def test_an_interrupt_ends_the_step(action: object) -> None:
    told: list[Progress] = []
    with pytest.raises(KeyboardInterrupt):
        BuildSteps(told.append).run("export", action, str)  # type: ignore[arg-type]
    assert [progress.state for progress in told] == ["started", "failed"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_uninterrupted_step() -> None:
    told: list[Progress] = []
    assert BuildSteps(told.append).run("export", lambda: 3, lambda result: f"{result} nodes") == 3
    assert [(progress.state, progress.detail) for progress in told] == [("started", ""), ("done", "3 nodes")]
