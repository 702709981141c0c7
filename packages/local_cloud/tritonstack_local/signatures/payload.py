"""Check request bodies against their signatures and checksums; no body is held in memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from tritonstack_local.signatures.requests import DeniedError, Reason, SentRequest

UNSIGNED = "UNSIGNED-PAYLOAD"


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class Payload:
    """A body and its checks: hashes, each with a function that denies wrong digests."""

    def __init__(self, *checks: tuple[_Hash, Callable[[bytes], None]]) -> None:
        self._checks = checks

    def update(self, data: bytes) -> None:
        """Process the next part of the body."""
        for hash_, _ in self._checks:
            hash_.update(data)

    def finish(self) -> None:
        """Deny the request if one of the checks fails."""
        for hash_, check in self._checks:
            check(hash_.digest())

    def and_checksums(self, request: SentRequest) -> Payload:
        """Check also the checksums in the request's headers."""
        names = [name for name in _HASHES if name in request.headers]
        return Payload(*self._checks, *((_HASHES[name](), _declared_in(request, name)) for name in names))


def hashed(check: Callable[[str], None]) -> Payload:
    """Return the payload whose SHA-256 `check` verifies."""
    return Payload((hashlib.sha256(), lambda digest: check(digest.hex())))


def equal_to(declared: str) -> Callable[[str], None]:
    """Create a check that denies every hash but the declared one."""

    def check(actual: str) -> None:
        if not hmac.compare_digest(declared, actual):
            raise DeniedError(Reason.PAYLOAD_MISMATCH)

    return check


def _declared_in(request: SentRequest, name: str) -> Callable[[bytes], None]:
    declared = (request.header(name) or "").encode()

    def check(digest: bytes) -> None:
        if not hmac.compare_digest(base64.b64encode(digest), declared):
            raise DeniedError(
                Reason.BAD_DIGEST, f"The {name} you specified did not match the calculated checksum."
            )

    return check


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


_HASHES: Mapping[str, Callable[[], _Hash]] = {
    "content-md5": lambda: hashlib.md5(usedforsecurity=False),
    "x-amz-checksum-crc32": _Crc32,
    "x-amz-checksum-sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "x-amz-checksum-sha256": hashlib.sha256,
}
"""The verified checksums; Python's standard library lacks CRC32C and CRC64NVME."""
