"""Deny requests of web pages by their Host, Origin, and Sec-Fetch-Site headers."""

from __future__ import annotations

import re

from tritonstack_local.access.denials import DeniedError, Reason
from tritonstack_local.access.requests import SentRequest

_HOST = re.compile(
    # S3 clients prefix localhost with bucket names. Browsers resolve such names to loopback only.
    r"(?P<name>(?:[a-z0-9][a-z0-9._-]*\.)?localhost|127\.0\.0\.1|\[::1\])(?::(?P<port>\d{1,5}))?"
)
_OWN_SITES = ("none", "same-origin")


def check_origin(request: SentRequest, *, port: int) -> None:
    """Deny requests of web pages from other origins, and requests for another host or port."""
    hosts = request.headers.get("host", ())
    match = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
    if match is None or int(match["port"] or 80) != port:
        shown = ", ".join(hosts) or "none"
        raise DeniedError(
            Reason.FORBIDDEN,
            f"The local cloud answers requests to localhost:{port} only; the Host header is {shown[:200]}",
        )
    if any(origin != f"http://{hosts[0].lower()}" for origin in request.headers.get("origin", ())):
        raise DeniedError(Reason.FORBIDDEN, "The local cloud rejects requests of web pages")
    if any(site not in _OWN_SITES for site in request.headers.get("sec-fetch-site", ())):
        raise DeniedError(Reason.FORBIDDEN, "The local cloud rejects requests of web pages")
    if request.method == "OPTIONS":
        raise DeniedError(Reason.FORBIDDEN, "The local cloud rejects CORS requests")


def bucket_in_host(request: SentRequest) -> str:
    """Return the bucket in the host name, as S3 clients write it; empty if there is none."""
    host = (request.header("host") or "").partition(":")[0].lower()
    return host.partition(".")[0] if host.endswith(".localhost") else ""
