"""Canonical requests and signing keys of Signature Version 4."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from tritonstack_local.signatures.requests import DeniedError, Reason, SentRequest, decoded_query, split_query

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
PATHS_AS_SENT = {"s3", "s3express", "s3-object-lambda", "s3-outposts"}
"""Services whose paths are neither normalized nor encoded twice."""


@lru_cache(maxsize=4096)
def signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """Derive the key that signs a day's requests to a service in a region."""
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode("latin-1"), hashlib.sha256)
    return key


def sign(key: bytes, text: str) -> str:
    """Sign a string."""
    return hmac.digest(key, text.encode("latin-1"), "sha256").hex()


def string_to_sign(canonical: str, *, date: str, scope: str) -> str:
    """Build the string that a request's signature is computed from."""
    digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
    return f"{ALGORITHM}\n{date}\n{scope}\n{digest}"


def canonical_request(
    request: SentRequest, *, signed: Sequence[str], payload: str, service: str, presigned: bool
) -> str:
    """Build the canonical request; `payload` is the hash or its placeholder."""
    path = canonical_path(request.path, as_sent=service in PATHS_AS_SENT)
    query = canonical_query(request.query, without={"X-Amz-Signature"} if presigned else set())
    headers = _canonical_headers(request, signed)
    return f"{request.method}\n{path}\n{query}\n{headers}\n{';'.join(signed)}\n{payload}"


@lru_cache(maxsize=1024)
def canonical_path(path: str, *, as_sent: bool) -> str:
    """Encode a path once for S3; normalize it and encode it twice for every other service."""
    encoded = quote(unquote_to_bytes(path), safe="/~")
    return encoded if as_sent else quote(_normalized(encoded), safe="/~")


def canonical_query(query: str, *, without: set[str]) -> str:
    """Sort the parameters of a query, encoded as AWS encodes them."""
    if not query:
        return ""
    decoded = ((decoded_query(name), decoded_query(value)) for name, value in split_query(query))
    encoded = sorted((_encoded(name), _encoded(value)) for name, value in decoded if name not in without)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _encoded(text: str) -> str:
    return quote(text, safe="~", encoding="latin-1")


def _canonical_headers(request: SentRequest, signed: Sequence[str]) -> str:
    headers = request.headers
    lines = []
    for name in signed:
        values = headers.get(name)
        if values is None:
            raise DeniedError(Reason.MISMATCH)
        value = (
            ",".join([_collapsed(value) for value in values]) if len(values) > 1 else _collapsed(values[0])
        )
        lines.append(f"{name}:{value}\n")
    return "".join(lines)


def _collapsed(value: str) -> str:
    """Remove blanks at both ends, and replace others by single ones."""
    return " ".join(value.split())


def _normalized(path: str) -> str:
    """Remove dot segments and empty segments, as botocore's signer does."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            if kept:
                kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    slash = "/" if kept and path.endswith("/") else ""
    return "/" + "/".join(kept) + slash
