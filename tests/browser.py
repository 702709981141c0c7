"""A real Chromium, driven through its own protocol over pipes: pages, errors, keys, and screenshots."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tools.pictures.browser import BROWSERS

_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_WITHIN_S = 60.0
_KEYS = {"Tab": 9, "Enter": 13, " ": 32}


class PageError(AssertionError):
    """The browser rejected a command, or a script failed."""


@dataclass
class Browser:
    """A running browser. Commands are answered in order; events are kept."""

    process: subprocess.Popen[bytes]
    to_browser: int
    from_browser: int
    events: list[dict[str, Any]] = field(default_factory=list)
    _rest: bytes = b""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Run a command, and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait_for(self, method: str, session: str) -> None:
        """Wait for the next event of a kind on a page."""
        while (event := self.receive()).get("method") != method or event.get("sessionId") != session:
            self.events.append(event)

    def receive(self) -> dict[str, Any]:
        """Read one message; they end with a zero byte. Raise PageError if none arrives."""
        end = time.monotonic() + _WITHIN_S
        while b"\0" not in self._rest:
            if not select.select([self.from_browser], [], [], max(0.0, end - time.monotonic()))[0]:
                raise PageError(f"the browser sent no message within {_WITHIN_S:g} s")
            read = os.read(self.from_browser, 1 << 20)
            if not read:
                raise PageError("the browser has ended")
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def page(self) -> Page:
        """Open an empty page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        return page


@dataclass
class Page:
    """One page."""

    browser: Browser
    session: str

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Run a command on this page."""
        return self.browser.call(method, self.session, **parameters)

    def open(self, url: str) -> None:
        """Load a page to its end."""
        self.call("Page.navigate", url=url)
        self.browser.wait_for("Page.loadEventFired", self.session)

    def show_as(self, *, width: int, height: int = 900, scheme: str = "light", media: str = "screen") -> None:
        """Set the size of the window, the color scheme, and the medium."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def run(self, script: str) -> Any:
        """Return the value of an expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        text = {"Enter": "\r", " ": " "}.get(key)
        common = {"key": key, "windowsVirtualKeyCode": _KEYS[key], "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **({"text": text} if text else {}), **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def printed(self) -> bytes:
        """Return the page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def problems(self) -> list[str]:
        """Return errors and warnings of the console, and requests that failed."""
        self.run("new Promise((done) => setTimeout(done, 50))")
        own = [event for event in self.browser.events if event.get("sessionId") == self.session]
        return [text for event in own if (text := _problem(event)) is not None]


def _problem(event: Mapping[str, Any]) -> str | None:
    parameters = event.get("params", {})
    match event.get("method"):
        case "Runtime.exceptionThrown":
            return str(parameters["exceptionDetails"].get("text"))
        case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
            return str(parameters["args"])
        case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
            return str(parameters["entry"]["text"])
        case "Network.loadingFailed":
            return str(parameters["errorText"])
    return None


def find_chromium() -> str:
    """Return the path of an installed Chromium; skip the test without one."""
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    pytest.skip(f"no Chromium on this machine ({', '.join(BROWSERS)}); install the package `chromium`")


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with its profile in a folder; end it."""
    program = find_chromium()
    browser_reads, to_browser = os.pipe()
    from_browser, browser_writes = os.pipe()
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    # The browser reads from descriptor 3 and writes to 4.
    script = f'exec "$0" "$@" 3<&{browser_reads} 4>&{browser_writes}'
    process = subprocess.Popen(
        ["bash", "-c", script, program, *_OPTIONS, *sandbox, f"--user-data-dir={folder}", "about:blank"],
        pass_fds=(browser_reads, browser_writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(browser_reads)
    os.close(browser_writes)
    try:
        yield Browser(process, to_browser, from_browser)
    finally:
        os.close(to_browser)
        process.terminate()
        process.wait(20)
        os.close(from_browser)
