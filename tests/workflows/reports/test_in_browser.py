"""The report in a real Chromium: errors, accessibility, keyboard, print, screenshots, and live updates.

`UPDATE_SNAPSHOTS=1 pytest` with this file takes new screenshots.
"""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.browser import Browser, Page, browser
from tests.git import Repository
from tests.projects import edit, write_project
from tests.reviewed_templates import UPDATE
from tests.workflows.reports.sample import sample_report
from tritonstack.base.paths import Project
from tritonstack.workflows.loopback import LoopbackServer
from tritonstack.workflows.reports.page.document import render
from tritonstack.workflows.reports.report import ReportOptions
from tritonstack.workflows.reports.watching import LiveReport, WatchServer
from tritonstack.workflows.session import Session

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[3]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = Path(__file__).parent / "screenshots"
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"width": 1280},
    "dark": {"width": 1280, "scheme": "dark"},
    "phone": {"width": 375},
    "print": {"width": 760, "media": "print", "scheme": "dark"},
}
SCALE = 0.25
"""Of the pictures in the repository: layout and colors matter, not the shape of letters."""
BLOCK = 8
MOST_CHANGED = 0.06
"""Share of blocks that may differ: fonts of machines differ."""
WAIT_S = 20
REACHABLE = (
    "[...document.querySelectorAll('main a, main summary, main [tabindex=\"0\"]')]"
    ".filter((one) => one.checkVisibility({contentVisibilityAuto: true})).length"
)
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
    found = page.run("axe.run(document, {resultTypes: ['violations']}).then((one) => one.violations)")
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_there_are_no_errors_and_no_serious_accessibility_findings(page: Page, view: str) -> None:
    page.show_as(**VIEWS[view])
    page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert accessibility(page) == []
    assert page.problems() == []


def test_the_accessibility_check_finds_what_is_wrong(page: Page) -> None:
    page.run("document.querySelector('p').style.color = '#eee'")
    page.run("document.body.append(document.createElement('button'))")
    assert {one.partition(":")[0] for one in accessibility(page)} >= {"button-name"}


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
    wanted = page.run(REACHABLE)
    reached = 0
    for _ in range(wanted):
        page.press("Tab")
        shown = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.run(f"document.activeElement.closest('main') !== null && {shown}") == "solid"
        reached += 1
    assert reached == wanted > 20
    page.run("document.querySelector('main summary').focus()")
    page.press("Enter")
    assert page.run("document.querySelector('main details').open") is True


def test_everything_is_printed_in_light_colors(page: Page) -> None:
    page.show_as(**VIEWS["print"])
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.run("getComputedStyle(document.body).color") == "rgb(27, 36, 48)"
    assert page.run(HIDDEN_DETAILS) == 0
    printed = page.printed()
    assert printed.startswith(b"%PDF-")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") >= 3


def blocks(png: bytes) -> np.ndarray[Any, Any]:
    """Return the mean color of each block of a picture."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.float64)
    height, width = (size // BLOCK * BLOCK for size in pixels.shape[:2])
    return pixels[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3).mean(axis=(1, 3))


def changed(one: bytes, other: bytes) -> float:
    """Return the share of blocks that differ, after both are made equally high."""
    first, second = blocks(one), blocks(other)
    if abs(len(first) - len(second)) > 0.08 * len(first) or first.shape[1] != second.shape[1]:
        return 1.0
    rows = np.linspace(0, len(second) - 1, len(first)).round().astype(int)
    return float((np.abs(first - second[rows]).max(axis=2) > 40).mean())


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_looks_like_its_screenshot(page: Page, view: str) -> None:
    page.show_as(**VIEWS[view])
    picture, kept = page.picture(scale=SCALE), PICTURES / f"{view}.png"
    if UPDATE in os.environ:
        PICTURES.mkdir(exist_ok=True)
        Image.open(io.BytesIO(picture)).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(
            kept, optimize=True
        )
    assert changed(picture, kept.read_bytes()) <= MOST_CHANGED


def test_the_comparison_sees_a_change(page: Page, chromium: Browser, tmp_path: Path) -> None:
    before = page.picture(scale=SCALE)
    page.run("document.querySelector('section').remove()")
    assert changed(before, page.picture(scale=SCALE)) > MOST_CHANGED
    page.show_as(width=1280, scheme="dark")
    assert changed(before, page.picture(scale=SCALE)) > MOST_CHANGED
    sample = sample_report()
    (tmp_path / "other.html").write_text(render(replace(sample, models=sample.models[1:])))
    page.open((tmp_path / "other.html").as_uri())
    assert changed(before, page.picture(scale=SCALE)) > MOST_CHANGED


def wait_until(page: Page, condition: str) -> None:
    """Wait until an expression of the page is true."""
    until = time.monotonic() + WAIT_S
    while not page.run(condition):
        assert time.monotonic() < until, f"{condition} stays false: {page.run('document.body.innerText')}"
        time.sleep(0.1)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = write_project(tmp_path)
    Repository(tmp_path).commit("start")
    return project


@pytest.fixture
def watched(project: Project) -> Iterator[tuple[LiveReport, WatchServer]]:
    live = LiveReport(Session(project), ReportOptions(offline=True))
    server = WatchServer(live, "shop")
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield live, server
    server.close()
    thread.join()


def test_a_live_page_follows_changes(
    chromium: Browser, watched: tuple[LiveReport, WatchServer], project: Project
) -> None:
    live, server = watched
    page = chromium.page()
    page.show_as(width=1280)
    page.open(server.url)
    wait_until(page, "document.getElementById('state').textContent.startsWith('Reading')")
    live.read()
    wait_until(page, "document.querySelector('#environments table') !== null")
    assert " s ago" in page.run("document.getElementById('state').textContent")
    assert page.run("location.href") == f"http://127.0.0.1:{server.port}/"
    page.run("document.querySelector('#environments summary').focus()")
    page.press("Enter")
    edit(project.environment_file("dev"), "111111111111", "222222222222")
    live.read()
    wait_until(page, "document.getElementById('environments').innerText.includes('222222222222')")
    assert page.run("document.querySelector('#environments details').open") is True
    assert page.run("document.activeElement === document.querySelector('#environments summary')") is True
    assert "environments" in page.run("document.getElementById('news').textContent")
    assert accessibility(page) == []
    assert page.problems() == []


def test_a_live_page_without_its_token_shows_nothing(
    chromium: Browser, watched: tuple[LiveReport, WatchServer]
) -> None:
    live, server = watched
    live.read()
    page = chromium.page()
    page.open(f"http://127.0.0.1:{server.port}/#token=wrong")
    wait_until(page, "document.getElementById('state').className === 'lost'")
    assert "111111111111" not in page.run("document.body.innerText")
    assert "not signed" in page.run("document.getElementById('state').textContent")


class _OtherSite(BaseHTTPRequestHandler):
    """A page of another origin on this machine."""

    def do_GET(self) -> None:  # the name is the base class's
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>other</title><p>other</p>")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Print nothing."""


ATTACKS = {
    "fetch": "fetch(URL).then((one) => one.text())",
    "fetch without CORS": "fetch(URL, {mode: 'no-cors'}).then((one) => one.text())",
    "script": "new Promise((done, fail) => { const one = document.createElement('script'); one.src = URL;"
    " one.onload = () => done('loaded'); one.onerror = () => fail('denied'); document.body.append(one); })",
    "frame": "new Promise((done) => { const one = document.createElement('iframe'); one.src = URL;"
    " one.onload = () => { try { done(one.contentDocument.body.innerText); } catch { done(''); } };"
    " document.body.append(one); })",
}


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, int]]:
    """Port, path, and status of each answer of servers in this process."""
    found: list[tuple[int, str, int]] = []
    send = BaseHTTPRequestHandler.send_response

    def recorded(handler: BaseHTTPRequestHandler, code: int, message: str | None = None) -> None:
        found.append((int(handler.server.server_address[1]), handler.path, code))
        send(handler, code, message)

    monkeypatch.setattr(BaseHTTPRequestHandler, "send_response", recorded)
    return found


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("path", ["/", "/sections"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_other_sites_read_nothing(
    chromium: Browser,
    watched: tuple[LiveReport, WatchServer],
    answered: list[tuple[int, str, int]],
    attack: str,
    path: str,
    host: str,
) -> None:
    """Not even an answer that the browser would hide: the server denies the request."""
    live, server = watched
    live.read()
    other = LoopbackServer(0, _OtherSite)
    thread = threading.Thread(target=other.serve_forever, args=(0.1,))
    thread.start()
    try:
        page = chromium.page()
        page.open(f"http://localhost:{other.port}/")
        url = json.dumps(f"http://{host}:{server.port}{path}")
        script = ATTACKS[attack].replace("URL", url)
        found = page.run(f"Promise.resolve().then(() => {script}).catch(() => '')")
    finally:
        other.shutdown()
        other.server_close()
        thread.join()
    assert not found
    statuses = {status for port, asked, status in answered if (port, asked) == (server.port, path)}
    assert statuses == {403}
