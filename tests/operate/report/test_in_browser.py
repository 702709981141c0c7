"""The report in a real Chromium: errors, accessibility, keyboard, print, and reloads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser, Page, browser
from tests.operate.report.sample import sample_report
from tritonstack.operate.report.page.document import Watch, render

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[3]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"width": 1280},
    "dark": {"width": 1280, "scheme": "dark"},
    "phone": {"width": 375},
    "print": {"width": 760, "media": "print", "scheme": "dark"},
}
WAIT_S = 20
REACHABLE = (
    "[...document.querySelectorAll('main a, main summary, main [tabindex=\"0\"]')]"
    ".filter((one) => one.checkVisibility({contentVisibilityAuto: true})).length"
)
OPENED = "document.querySelector('main details').open"
HIDDEN_DETAILS = (
    "[...document.querySelectorAll('details > *')]"
    ".filter((one) => !one.checkVisibility({contentVisibilityAuto: true})).length"
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render(sample_report()), encoding="utf-8")
    return file


@pytest.fixture
def page(chromium: Browser, file: Path) -> Page:
    page = chromium.page()
    page.show_as(width=1280)
    page.open(file.as_uri())
    return page


def accessibility(page: Page) -> list[str]:
    """Return serious findings of axe-core."""
    page.run(AXE.read_text())
    violations = page.run("axe.run(document, {resultTypes: ['violations']}).then((one) => one.violations)")
    return [
        f"{violation['id']}: {violation['help']}: {[node['html'][:120] for node in violation['nodes'][:3]]}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_there_are_no_errors_and_no_serious_accessibility_findings(page: Page, view: str) -> None:
    page.show_as(**VIEWS[view])
    page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert accessibility(page) == []
    assert page.problems() == []


@pytest.mark.parametrize("width", [320, 375, 768, 1280, 1920])
def test_only_regions_scroll_sideways(page: Page, width: int) -> None:
    page.show_as(width=width)
    assert page.run("document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_everything(page: Page) -> None:
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    assert page.run("document.activeElement.getBoundingClientRect().top") == 8
    page.press("Enter")
    assert page.run("document.activeElement.id") == "report"
    assert page.run("location.hash") == "#report"
    reachable = page.run(REACHABLE)
    assert reachable > 20
    for _ in range(reachable):
        page.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.run(f"document.activeElement.closest('main') !== null && {outline}") == "solid"
    page.run("document.querySelector('main summary').focus()")
    page.press("Enter")
    assert page.run(OPENED) is True


def test_everything_is_printed_in_light_colors(page: Page) -> None:
    page.show_as(**VIEWS["print"])
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.run("getComputedStyle(document.body).color") == "rgb(27, 36, 48)"
    assert page.run(HIDDEN_DETAILS) == 0
    printed = page.printed()
    assert printed.startswith(b"%PDF-")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") >= 3


def test_a_watched_page_reloads_itself(chromium: Browser, tmp_path: Path) -> None:
    file, sample = tmp_path / "report.html", sample_report()
    file.write_text(render(sample, Watch(1)))
    page = chromium.page()
    page.open(file.as_uri())
    assert "Live" in page.run("document.getElementById('state').textContent")
    file.write_text(render(sample, Watch(1, "dev.yaml:3: unknown key")))
    until = time.monotonic() + WAIT_S
    while "dev.yaml:3" not in page.run("document.getElementById('state')?.textContent ?? ''"):
        assert time.monotonic() < until
        time.sleep(0.1)
