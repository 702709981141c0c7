"""Layouts that fail while they are measured."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from model_build.errors import ServingError, SilentModelError
from model_build.layouts import choose as code
from tritonstack.triton.errors import TritonEndedError, TritonFailedError, TritonTimeoutError

REQUEST = {"X": np.zeros((1, 1), np.int64)}


def time_layouts(
    fails: Exception | None, after: int, monkeypatch: pytest.MonkeyPatch, *, times: int = 1_000_000
) -> dict[str, code.LayoutTime]:
    """Measure one good layout, and one that fails after so many requests, and so many times."""
    clock, requests, failures = itertools.count(), itertools.count(), itertools.count(1)

    def post(*_: Any) -> None:
        if fails and next(requests) >= after and next(failures) <= times:
            raise fails

    @contextmanager
    def served(repository: Path, *_: Any, **__: Any) -> Iterator[Any]:
        ask = post if repository.name == "bad" else lambda *_: None
        yield SimpleNamespace(server=SimpleNamespace(pid=1), post=ask)

    monkeypatch.setattr(code, "served_repository", served)
    monkeypatch.setattr(code, "processor_seconds", lambda _: float(next(clock)))
    monkeypatch.setattr(code, "ROUND_S", 0.0)
    return code.time_layouts(
        {"bad": Path("bad"), "good": Path("good")},
        [REQUEST],
        entry="m",
        installation=None,  # type: ignore[arg-type]
        work=Path(),
    )


@pytest.mark.parametrize("after", [0, 1, 2, 34, 98, 129])
@pytest.mark.parametrize(
    "error",
    [
        ServingError("500", remedy="-"),
        SilentModelError("no heartbeat", remedy="-"),
        TritonFailedError("ended"),
        TritonEndedError("ended before"),
        TritonTimeoutError("too late"),
    ],
)
def test_a_layout_may_fail_at_any_request(error, after, monkeypatch):
    times = time_layouts(error, after, monkeypatch)
    bad = times["bad"]
    assert (bad.milliseconds, bad.violation) == (None, error.message)
    assert times["good"] == code.LayoutTime(31.25)


def test_a_silent_process_is_measured_again(monkeypatch):
    """An overloaded machine must not decide the layout."""
    silent = SilentModelError("no heartbeat", remedy="-")
    times = time_layouts(silent, 40, monkeypatch, times=1)
    assert times == dict.fromkeys(("bad", "good"), code.LayoutTime(31.25))


@pytest.mark.parametrize(
    ("seconds", "callers"), [(0.005, 32), (0.0625, 32), (0.25, 8), (1.0, 2), (4.0, 1), (0.0, 32)]
)
def test_slow_models_have_fewer_callers(seconds, callers):
    """32 requests of 4 seconds would exceed the time limit of the last one."""
    assert code._callers(seconds) == callers
