"""The pictures of docs/images, and the tools that draw them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures.terminal import Screen, record

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


def test_a_command_runs_in_a_terminal_of_that_size(tmp_path: Path) -> None:
    script = "import os, sys; print(sys.stdout.isatty(), *os.get_terminal_size())"
    found = record(
        f'{sys.executable} -c "{script}"; exit 3', folder=tmp_path, variables=os.environ, columns=73, rows=20
    )
    assert (found.code, "".join(one.text for one in found.printed)) == (3, "True 73 20\r\n")


@pytest.mark.parametrize("file", IMAGES, ids=lambda file: file.name)
def test_pictures_are_complete_and_show_nothing_of_a_machine(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    root = parsed(text)
    assert root.findtext(f"{SVG}title")
    assert OF_A_MACHINE.search(text) is None
    assert re.search(r"(href=.|url\()https?:", text) is None
