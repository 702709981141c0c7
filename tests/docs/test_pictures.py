"""The pictures of docs/images."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGES = sorted((ROOT / "docs/images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
OF_A_MACHINE = re.compile(r"/(tmp|root|home|work|Users)/")


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 - the project's own file


@pytest.mark.parametrize("file", IMAGES, ids=lambda file: file.name)
def test_pictures_are_complete_and_show_nothing_of_a_machine(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    root = parsed(text)
    assert root.findtext(f"{SVG}title")
    assert OF_A_MACHINE.search(text) is None
    assert re.search(r"(href=.|url\()https?:", text) is None
