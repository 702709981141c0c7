"""Which layout `precision: auto` chooses, from measured CPU times, and layouts that fail meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from model_build.errors import ServingError, SilentModelError
from model_build.layouts import choose
from model_build.layouts.choose import LayoutTime, choose_layout
from model_build.progress import BuildSteps
from tritonstack.triton.errors import TritonEndedError, TritonFailedError, TritonTimeoutError

REQUEST = {"X": np.zeros((1, 1), np.int64)}


def time_layouts(
    fails: Exception | None, after: int, monkeypatch: pytest.MonkeyPatch, *, times: int = 1_000_000
) -> dict[str, choose.LayoutTime]:
    """Measure one good layout, and one that fails after so many requests, and so many times."""
    clock, requests, failures = itertools.count(), itertools.count(), itertools.count(1)

    def post(*_: Any) -> None:
        if fails and next(requests) >= after and next(failures) <= times:
            raise fails

    @contextmanager
    def served(repository: Path, *_: Any, **__: Any) -> Iterator[Any]:
        ask = post if repository.name == "bad" else lambda *_: None
        yield SimpleNamespace(server=SimpleNamespace(pid=1), post=ask)

    monkeypatch.setattr(choose, "served_repository", served)
    monkeypatch.setattr(choose, "processor_seconds", lambda _: float(next(clock)))
    monkeypatch.setattr(choose, "ROUND_S", 0.0)
    return choose.time_layouts(
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
    assert times["good"] == choose.LayoutTime(31.25)


def test_a_silent_process_is_measured_again(monkeypatch):
    """An overloaded machine must not decide the layout."""
    silent = SilentModelError("no heartbeat", remedy="-")
    times = time_layouts(silent, 40, monkeypatch, times=1)
    assert times == dict.fromkeys(("bad", "good"), choose.LayoutTime(31.25))


@pytest.mark.parametrize(
    ("seconds", "callers"), [(0.005, 32), (0.0625, 32), (0.25, 8), (1.0, 2), (4.0, 1), (0.0, 32)]
)
def test_slow_models_have_fewer_callers(seconds, callers):
    """32 requests of 4 seconds would exceed the time limit of the last one."""
    assert choose._callers(seconds) == callers


CHEAP, DEAR = LayoutTime(1.0), LayoutTime(1.3)
BROKEN = LayoutTime(violation="the server ended")


class Served:
    """Layouts whose times are given instead of measured."""

    def __init__(
        self, times: Mapping[str, LayoutTime], monkeypatch: pytest.MonkeyPatch, kind: str = "embedded"
    ) -> None:
        self.times, self.kind = times, kind
        self.lines: list[str] = []
        tried = {name: choose._Trial(SimpleNamespace(name=name), time, 7) for name, time in times.items()}
        monkeypatch.setattr(choose, "_timed", lambda *_: tried)

    def choose(self, recorded: str | None = None) -> Any:
        layouts = {name: SimpleNamespace(name=name) for name in self.times}
        layout = SimpleNamespace(name="itself", alternatives=lambda *_: layouts)
        context = SimpleNamespace(
            installation=SimpleNamespace(kind=self.kind),
            recorded_choice=recorded,
            recorded_layout=(recorded or "").partition("; ")[2],
        )
        steps = BuildSteps(lambda progress: self.lines.append(progress.detail))
        graph = SimpleNamespace(precision="fp32")
        return choose_layout(layout, graph, None, (), context, steps)


@pytest.mark.parametrize(
    ("one", "two", "kept"),
    [
        (CHEAP, DEAR, "one"),
        (DEAR, CHEAP, "two"),
        (LayoutTime(1.1), CHEAP, "one"),
        (BROKEN, DEAR, "two"),
        (DEAR, BROKEN, "one"),
    ],
)
def test_another_layout_must_be_clearly_cheaper(one, two, kept, monkeypatch):
    served = Served({"one": one, "two": two}, monkeypatch)
    layout, candidates = served.choose()
    assert layout.name == kept
    assert {candidate.name: candidate.kept for candidate in candidates} == {
        name: name == kept for name in ("one", "two")
    }
    assert f"chose {kept}" in served.lines[-1]
    for candidate in candidates:
        time = served.times[candidate.name]
        assert candidate.latency_ms == ({"32 callers": time.milliseconds} if time.milliseconds else {})
        assert time.violation in candidate.reason


def test_a_build_fails_if_no_layout_can_be_served(monkeypatch):
    with pytest.raises(ServingError, match=r"one: .*two: "):
        Served({"one": BROKEN, "two": BROKEN}, monkeypatch).choose()


@pytest.mark.parametrize(
    ("recorded", "kept"), [("int8", "one"), ("int8; two", "two"), ("int8, calibrated; two", "two")]
)
def test_a_recorded_layout_is_not_measured_again(recorded, kept, monkeypatch):
    served = Served({"one": CHEAP, "two": DEAR}, monkeypatch)
    layout, (candidate,) = served.choose(recorded)
    assert (layout.name, candidate.name, candidate.kept) == (kept, kept, True)
    assert not served.lines


def test_the_image_measures_what_the_local_server_did_not_record(monkeypatch):
    """The local server's Python backends say little about the image's own ones."""
    served = Served({"one": DEAR, "two": CHEAP}, monkeypatch, kind="container")
    assert served.choose("int8")[0].name == "two"
    assert served.choose("int8; one")[0].name == "one"


def test_an_unknown_recorded_layout_is_measured(monkeypatch):
    layout, candidates = Served({"one": CHEAP, "two": DEAR}, monkeypatch).choose("int8; three")
    assert (layout.name, len(candidates)) == ("one", 2)
