"""Progress of a build's steps, and Ctrl-C at any point."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from model_build.errors import ExportError
from model_build.progress import BuildSteps, Progress, process_seconds


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
        raise ExportError("cannot be exported", remedy=None) from error
    return "never"


@pytest.mark.parametrize("action", [press_ctrl_c, swallow, disguise])
def test_an_interrupt_ends_the_step(action):
    changes: list[Progress] = []
    with pytest.raises(KeyboardInterrupt):
        BuildSteps(changes.append).run("export", action, str)  # type: ignore[arg-type]
    assert [progress.state for progress in changes] == ["started", "failed"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_age_of_a_process_includes_its_start():
    begin = time.monotonic()
    code = "import time; time.sleep(0.5); import model_build.progress as p; print(p.process_seconds())"
    age = float(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout)
    assert 0.5 <= age <= time.monotonic() - begin + 0.02  # the kernel counts in ticks of 10 ms
    assert process_seconds() > age
