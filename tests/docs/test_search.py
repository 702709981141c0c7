"""In a real browser, the site's search finds pages, and a page loads nothing from elsewhere."""

from __future__ import annotations

import functools
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser import find_chromium
from tools.site import build

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
PAGE = Path(__file__).with_name("search_page.html")

pytestmark = pytest.mark.e2e


class Handler(SimpleHTTPRequestHandler):
    """Serves the site and the page that searches it, and takes what the page found."""

    found: queue.Queue[Any] = queue.Queue()

    def do_GET(self) -> None:
        if not self.path.startswith("/search?"):
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.read_bytes())
        return None

    def do_POST(self) -> None:
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = build(tmp_path_factory.mktemp("docs") / "docs")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("local mode", "/faq/"),
        ("bootstrap", "/guides/first-production-account/"),
    ],
)
def test_the_search_finds_a_page(address: str, words: str, page: str, tmp_path: Path) -> None:
    browser = subprocess.Popen(
        [
            find_chromium(),
            *FLAGS,
            f"--user-data-dir={tmp_path / 'profile'}",
            f"{address}/search?for={quote(words)}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        found = Handler.found.get(timeout=120)
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
    assert page in found["links"]
    assert f"{address}/search.json" in found["loaded"]
    assert [name for name in found["loaded"] if not name.startswith(address)] == []
