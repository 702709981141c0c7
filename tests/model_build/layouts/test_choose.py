"""Which layout `precision: auto` chooses, from measured CPU times."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from model_build.errors import ServingError
from model_build.layouts import choose as code
from model_build.layouts.choose import LayoutTime, choose_layout
from model_build.progress import BuildSteps

CHEAP, DEAR = LayoutTime(1.0), LayoutTime(1.3)
BROKEN = LayoutTime(violation="the server ended")


class Served:
    """Layouts whose times are given instead of measured."""

    def __init__(
        self, times: Mapping[str, LayoutTime], monkeypatch: pytest.MonkeyPatch, kind: str = "embedded"
    ) -> None:
        self.times, self.kind = times, kind
        self.lines: list[str] = []
        tried = {name: code._Trial(SimpleNamespace(name=name), time, 7) for name, time in times.items()}
        monkeypatch.setattr(code, "_timed", lambda *_: tried)

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
