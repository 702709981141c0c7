"""Follow a project live: a server on loopback that reads the state again and again, and one page.

The page holds no data. Its script fetches the sections with requests that are signed with the token in the
page's address; the token itself is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from tritonstack.base.errors import TritonstackError
from tritonstack.base.web.foreign_pages import foreign_reason
from tritonstack.operations.aws import AWS_ERRORS
from tritonstack.workflows.loopback import HOST, LoopbackServer
from tritonstack.workflows.reports.changes import ChangeReader
from tritonstack.workflows.reports.live_state import LiveCache, StageLog
from tritonstack.workflows.reports.page.document import live_policy, render_live, render_sections
from tritonstack.workflows.reports.report import ReportOptions, collect, covered_environments
from tritonstack.workflows.session import Session

PATH = "/sections"
INTERVAL_S = 10.0
"""Pause between two reads of the clouds."""
SKEW_S = 60
_SCHEME = "HMAC-SHA256 "
_MOST_NONCES = 10_000


@dataclass
class Credentials:
    """Verifies signed requests; each signature counts once."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _seen: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sign(self, at: int, nonce: str) -> str:
        """Return the signature of a request at a time in seconds since 1970."""
        text = f"GET\n{PATH}\n{at}\n{nonce}"
        return hmac.new(self.token.encode(), text.encode(), hashlib.sha256).hexdigest()

    def admits(self, authorization: str, *, now: float) -> bool:
        """Check an Authorization header: `HMAC-SHA256 <time>.<nonce>.<signature>`."""
        parts = authorization.removeprefix(_SCHEME).split(".")
        if not authorization.startswith(_SCHEME) or len(parts) != 3:
            return False
        at, nonce, signature = parts
        if not (at.isascii() and at.isdecimal()) or len(at) > 12 or abs(now - int(at)) > SKEW_S:
            return False
        if not hmac.compare_digest(self.sign(int(at), nonce).encode(), signature.encode()):
            return False
        with self._lock:
            for old in [one for one, until in self._seen.items() if until < now]:
                del self._seen[old]
            if nonce in self._seen or len(self._seen) >= _MOST_NONCES:
                return False
            self._seen[nonce] = now + 2 * SKEW_S
        return True


@dataclass(frozen=True)
class WatchedReport:
    """A live report that has ended."""

    reads: int
    """How often the state was read."""

    def to_json(self) -> dict[str, int]:
        """Return the number of reads as JSON data."""
        return {"reads": self.reads}


@dataclass(frozen=True)
class _Sections:
    """What the last successful read gave, and the error of a later one."""

    parts: Mapping[str, str] = field(default_factory=dict)
    at: str | None = None
    read_at: float | None = None
    """On the monotonic clock."""
    error: str | None = None


class LiveReport:
    """The latest sections; reads them again until it is stopped."""

    def __init__(self, session: Session, options: ReportOptions) -> None:
        self._session = Session(session.project)  # its steps would fill the terminal
        self._options = options
        # Synthesis takes longer than everything else: the page shows the rest meanwhile.
        self._reader, self._log, self._cache = ChangeReader(in_background=True), StageLog(), LiveCache()
        self._latest = _Sections()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.reads = 0

    @property
    def answer(self) -> bytes:
        """The sections as JSON, with the age of the last successful read."""
        latest = self._latest
        age = None if latest.read_at is None else round(time.monotonic() - latest.read_at)
        shown = {"parts": latest.parts, "at": latest.at, "age_s": age, "error": latest.error}
        return json.dumps(shown).encode()

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; a read in progress is abandoned."""
        self._stopped.set()
        self._reader.close()

    def read(self) -> None:
        """Read the state once. An error, for example in a file that is being edited, keeps the sections."""
        try:
            data = collect(self._session, self._options, self._reader, self._cache)
            environments = tuple(self._log.completed(one) for one in data.environments)
            parts = render_sections(replace(data, environments=environments))
        except (TritonstackError, *AWS_ERRORS) as failure:
            self._latest = replace(self._latest, error=str(failure))
        except Exception as failure:  # the page shows it, and the next read may succeed
            self._latest = replace(self._latest, error=f"{type(failure).__name__}: {failure}")
        else:
            self._latest = _Sections(parts, datetime.now(UTC).strftime("%H:%M:%S"), time.monotonic())
        self.reads += 1

    def _follow(self) -> None:
        while not self._stopped.is_set():
            self.read()
            self._stopped.wait(INTERVAL_S)


class WatchServer:
    """Serves the page and its sections on loopback."""

    def __init__(self, live: LiveReport, title: str, *, port: int = 0) -> None:
        self.credentials = Credentials()
        self._http = _HttpServer(port, _Handler)
        self._http.live, self._http.credentials = live, self.credentials
        self._http.page = render_live(title).encode()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._http.port

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self.port}/#token={self.credentials.token}"

    def serve(self) -> None:
        """Answer requests until interrupted or closed."""
        self._http.serve_forever(0.2)

    def close(self) -> None:
        """Stop serving in another thread."""
        self._http.shutdown()
        self.stop_listening()

    def stop_listening(self) -> None:
        """Free the port, after `serve` has ended or if it never ran."""
        self._http.server_close()


def watch_report(
    session: Session, options: ReportOptions | None = None, *, port: int = 0, on_ready: Callable[[str], None]
) -> WatchedReport:
    """Serve a live report on loopback until Ctrl-C; `on_ready` receives the address of its page."""
    options = options or ReportOptions()
    covered_environments(session, options)
    live = LiveReport(session, options)
    server = WatchServer(live, session.project.root.resolve().name, port=port)
    try:
        live.start()
        on_ready(server.url)
        server.serve()
    except KeyboardInterrupt:
        pass
    finally:
        live.stop()
        server.stop_listening()
    return WatchedReport(live.reads)


class _HttpServer(LoopbackServer):
    live: LiveReport
    credentials: Credentials
    page: bytes


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer
    timeout = 30

    def do_GET(self) -> None:  # the name is the base class's
        headers: dict[str, list[str]] = {}
        for name, value in self.headers.items():
            headers.setdefault(name.lower(), []).append(value)
        reason = foreign_reason("GET", headers, port=self.server.port, subject="The live report")
        if reason is not None:
            self._reject(HTTPStatus.FORBIDDEN, reason)
        elif self.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        elif self.path == "/favicon.ico":
            self._answer(HTTPStatus.NO_CONTENT, "image/x-icon", b"")
        elif self.path != PATH:
            self._reject(HTTPStatus.NOT_FOUND, f"use GET / or GET {PATH}")
        elif not self._is_signed(headers.get("authorization", [])):
            self._reject(HTTPStatus.UNAUTHORIZED, "the request is not signed with this server's token")
        else:
            self._answer(HTTPStatus.OK, "application/json", self.server.live.answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Print nothing for each request."""

    def _is_signed(self, values: list[str]) -> bool:
        return len(values) == 1 and self.server.credentials.admits(values[0], now=time.time())

    def _reject(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True
        self._answer(status, "application/json", json.dumps({"error": message}).encode())

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", f"{live_policy()}; frame-ancestors 'none'")
        for name, value in _SECURITY.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


_SECURITY = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
