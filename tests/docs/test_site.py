"""The documentation site builds without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import site
from tools.site import DOCS, SiteError, addresses, build, sources

BROKEN = {
    "a missing page": ("[x](nowhere.md)", "nowhere.md"),
    "a file that is no page": ("[x](../Makefile)", "Makefile"),
    "a missing heading": ("[x](models.md#nowhere)", "anchor"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("docs") / "docs")


def listed(nav: Any) -> Iterator[str]:
    """Yield the pages of a navigation."""
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [value] if isinstance(value, str) else listed(value)


def test_the_navigation_lists_every_page_once() -> None:
    nav = tomllib.loads((DOCS / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(listed(nav)) == sorted(str(place) for place in sources().values() if place.suffix == ".md")


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_link_fails_the_build(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, message = BROKEN[case]
    page = tmp_path / "docs" / "broken.md"
    page.parent.mkdir()
    (page.parent / "models.md").write_text("# Models\n")
    (tmp_path / "Makefile").touch()
    page.write_text(f"# Broken\n\n{link}\n")
    (page.parent / "zensical.toml").write_text('[project]\nsite_name = "x"\ndocs_dir = "pages"\n')
    places = {page: Path("broken.md"), page.parent / "models.md": Path("models.md")}
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "DOCS", page.parent)
    monkeypatch.setattr(site, "sources", lambda: places)
    with pytest.raises(SiteError, match=re.escape(message)):
        build(tmp_path / "out")


def test_pages_load_nothing_from_elsewhere(built: Path) -> None:
    files = [file for file in built.rglob("*") if file.suffix in {".html", ".css", ".js"}]
    assert len(files) > 60
    assert {found for file in files for found in addresses(file.read_text())} == set()
    shown = '<script src="https://example.org/x.js"></script>'
    assert list(addresses(shown)) == ['<script src="https://example.org/x.js']
    assert list(addresses("a{b:url(//example.org/x.woff)}")) == ["url(//example.org/x.woff"]
