"""Tell requests of web pages from other origins from those of programs and of the server's own pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

_HOST = re.compile(
    # S3 clients prefix localhost with bucket names. Browsers resolve such names to loopback only.
    r"(?P<name>(?:[a-z0-9][a-z0-9._-]*\.)?localhost|127\.0\.0\.1|\[::1\])(?::(?P<port>\d{1,5}))?"
)
_OWN_SITES = ("none", "same-origin")


def foreign_reason(
    method: str, headers: Mapping[str, Sequence[str]], *, port: int, subject: str
) -> str | None:
    """Return why a server on loopback must deny a request; None if it may answer.

    `headers` has all values by lower-case name. A page that a browser loads from another site, also under a
    name that resolves to loopback, cannot avoid these headers.
    """
    hosts = headers.get("host", ())
    if len(hosts) != 1 or not _names(hosts[0], port):
        names = ", ".join(hosts) or "none"
        return f"{subject} answers requests to localhost:{port} only; the Host header is {names[:200]}"
    if any(site != f"http://{hosts[0].lower()}" for site in headers.get("origin", ())):
        return f"{subject} rejects requests of web pages"
    if any(site not in _OWN_SITES for site in headers.get("sec-fetch-site", ())):
        return f"{subject} rejects requests of web pages"
    if method == "OPTIONS":
        return f"{subject} rejects CORS requests"
    return None


@lru_cache(maxsize=64)
def _names(host: str, port: int) -> bool:
    """Return whether a Host header names a server on loopback with this port."""
    match = _HOST.fullmatch(host.lower())
    return match is not None and int(match["port"] or 80) == port
