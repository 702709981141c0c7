"""The pictures of docs/images, and the tools that draw them."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from rich.live import Live

from tests.constructs.monitored_endpoints import monitored
from tests.constructs.monitoring.test_dashboards import body
from tools.pictures.dashboards import metric_queries
from tools.pictures.session import film, still
from tools.pictures.terminal import Printed, Recording, Screen, record

ROOT = Path(__file__).resolve().parents[2]
IMAGES = sorted((ROOT / "docs/images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
OF_A_MACHINE = re.compile(r"/(tmp|root|home|work|Users)/")


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 - the project's own file


def shown(output: str, *, columns: int = 40) -> list[str]:
    screen = Screen(columns)
    screen.write(output)
    return ["".join(character for character, _ in line) for line in screen.lines()]


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("one\rtwo", ["two"]),
        ("one\r\ntwo\x1b[1A\rX", ["Xne", "two"]),
        ("one\r\x1b[2Ktwo", ["two"]),
        ("one\x1b[2D\x1b[Ktwo", ["otwo"]),
        ("one\r\ntwo\x1b[1A\x1b[Jx", ["onex"]),
        ("\x1b[?25lone\x1b[?25h", ["one"]),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        ("a\tb", ["a       b"]),
        ("x" * 45, ["x" * 40, "x" * 5]),
        ("a\x1b[3Cb", ["a   b"]),
    ],
)
def test_output_is_interpreted_as_a_terminal_does(output: str, lines: list[str]) -> None:
    assert shown(output) == lines


def test_colors_are_kept() -> None:
    screen = Screen(40)
    screen.write("\x1b[1;32mgood\x1b[0m.")
    (line,) = screen.lines()
    styles = [(character, bool(style.bold), style.color and style.color.number) for character, style in line]
    assert styles[0] == ("g", True, 2)
    assert styles[4] == (".", False, None)


def test_an_unknown_movement_is_an_error() -> None:
    with pytest.raises(ValueError, match="'r' is not interpreted"):
        shown("\x1b[5r")


def test_live_lines_leave_nothing() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=40)
    with Live("one\ntwo", console=console, transient=True, auto_refresh=False) as live:
        live.update("three\nfour\nfive", refresh=True)
        console.print("kept")
    assert shown(stream.getvalue().replace("\n", "\r\n")) == ["kept"]


def test_a_command_runs_in_a_terminal_of_that_size(tmp_path: Path) -> None:
    script = "import os, sys; print(sys.stdout.isatty(), *os.get_terminal_size())"
    found = record(
        f'{sys.executable} -c "{script}"; exit 3', folder=tmp_path, variables=os.environ, columns=73, rows=20
    )
    assert (found.code, "".join(one.text for one in found.printed)) == (3, "True 73 20\r\n")


def recording(command: str, *texts: str) -> Recording:
    printed = tuple(Printed(float(number), text) for number, text in enumerate(texts, start=1))
    return Recording(command, printed, 0, float(len(texts) + 1))


def test_a_still_has_the_text_of_the_terminal() -> None:
    root = parsed(still([recording("echo <&>", "\x1b[31m<&>\x1b[0m  two\r\n")], columns=40))
    spans = [(one.text, one.get("class")) for one in root.iter(f"{SVG}tspan")]
    assert len(root.findtext(f"{SVG}style", "").split("prefers-color-scheme:dark")) == 2
    assert spans == [("$", "c2"), ("echo <&>", "b"), ("<&>", "c1"), ("two", None)]


def test_a_film_shows_the_result_then_each_state_and_stops_at_the_last() -> None:
    text = film([recording("build", "one\r\n", "two\r\n", "three\r\n")], columns=40, rows=3)
    root = parsed(text)
    frames = [one for one in root.iter(f"{SVG}g") if one.get("transform", "").startswith("translate(0")]
    counts = [len(list(frame)) for frame in frames]
    assert counts == [3, 1, 1, 2, 3, 3]
    assert "prefers-reduced-motion" in text
    assert text.count("translateY") == len(frames) + 2


def test_the_queries_of_a_dashboard_are_valid() -> None:
    charts = [one["properties"] for one in body(monitored())["widgets"] if one["type"] == "metric"]
    assert len(charts) > 5
    for chart in charts:
        queries = list(metric_queries(chart["metrics"]))
        names = [query["Id"] for query in queries]
        assert len(names) == len(set(names)) == len(chart["metrics"])
        assert all(re.fullmatch(r"[a-z]\w*", name) for name in names)
        assert not any("PERIOD" in query.get("Expression", "") for query in queries)


@pytest.mark.parametrize("file", IMAGES, ids=lambda file: file.name)
def test_pictures_are_complete_and_show_nothing_of_a_machine(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    root = parsed(text)
    assert root.findtext(f"{SVG}title")
    assert OF_A_MACHINE.search(text) is None
    assert re.search(r"(href=.|url\()https?:", text) is None
