"""Sign requests with AWS Signature Version 4, deriving the signing key once per day and secret key."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from time import gmtime, strftime
from typing import Protocol

_ALGORITHM = "AWS4-HMAC-SHA256"


class FrozenCredentials(Protocol):
    """One consistent set of credentials: botocore's ReadOnlyCredentials."""

    access_key: str
    secret_key: str
    token: str | None


@dataclass(frozen=True)
class RequestTemplate:
    """The parts of a POST request that do not depend on its body, time or credentials."""

    url: str
    target: str
    """Path and query as sent."""
    canonical_path: str
    """Path as signed."""
    headers: Mapping[str, str]
    """Signed headers by lower-case name, with the host."""
    unsigned_headers: Mapping[str, str]


class RequestSigner:
    """Signs requests for one region and service. Threads may share it."""

    def __init__(self, *, region: str, service: str) -> None:
        self.region = region
        self.service = service
        self._key = ("", "", b"")  # secret key, day, and the signing key that follows from them

    def message(self, template: RequestTemplate, *, body: bytes | bytearray, by: FrozenCredentials) -> bytes:
        """Return the signed HTTP/1.1 message for `template` with `body`."""
        time = strftime("%Y%m%dT%H%M%SZ", gmtime())
        signed = {**template.headers, "x-amz-date": time}
        if by.token:
            signed["x-amz-security-token"] = by.token
        headers = {
            **signed,
            "authorization": self._authorization(template.canonical_path, signed, body, by),
            **template.unsigned_headers,
            "content-length": str(len(body)),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return b"".join((f"POST {template.target} HTTP/1.1\r\n{lines}\r\n".encode(), body))

    def _authorization(
        self, path: str, signed: Mapping[str, str], body: bytes | bytearray, by: FrozenCredentials
    ) -> str:
        time = signed["x-amz-date"]
        names = sorted(signed)
        # Signature Version 4 signs values without outer spaces, inner ones reduced to one.
        lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in names)
        listed = ";".join(names)
        request = f"POST\n{path}\n\n{lines}\n{listed}\n{sha256(body).hexdigest()}"
        scope = f"{time[:8]}/{self.region}/{self.service}/aws4_request"
        text = f"{_ALGORITHM}\n{time}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key(by.secret_key, time[:8]), text.encode(), "sha256").hex()
        return (
            f"{_ALGORITHM} Credential={by.access_key}/{scope}, SignedHeaders={listed}, Signature={signature}"
        )

    def _signing_key(self, secret_key: str, day: str) -> bytes:
        known_secret, known_day, key = self._key
        if (known_secret, known_day) != (secret_key, day):
            key = f"AWS4{secret_key}".encode()
            for part in (day, self.region, self.service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (secret_key, day, key)  # one assignment: other threads see the old or the new tuple
        return key
