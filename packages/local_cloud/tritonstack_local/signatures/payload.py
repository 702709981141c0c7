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


class Payload(Protocol):
    """A check of one body."""

    def update(self, data: bytes) -> bytes:
        """Process the next part of the request body; return its content."""

    def finish(self) -> None:
        """Deny the request if the body does not match the signature."""


class AnyPayload:
    """A body that the signature does not cover."""

    def update(self, data: bytes) -> bytes:
        """Accept it."""
        return data

    def finish(self) -> None:
        """Accept it."""


class HashedPayload:
    """A body whose SHA-256 `check` verifies."""

    def __init__(self, check: Callable[[str], None]) -> None:
        self._hash = hashlib.sha256()
        self._check = check

    def update(self, data: bytes) -> bytes:
        """Add to the hash."""
        self._hash.update(data)
        return data

    def finish(self) -> None:
        """Verify the hash."""
        self._check(self._hash.hexdigest())


def equal_to(declared: str) -> Callable[[str], None]:
    """Create a check that denies every hash but the declared one."""

    def check(actual: str) -> None:
        if not hmac.compare_digest(declared, actual):
            raise DeniedError(Reason.PAYLOAD_MISMATCH)

    return check


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


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


class ChecksummedPayload:
    """A payload whose content must also match the checksums in the request's headers."""

    def __init__(self, payload: Payload, request: SentRequest) -> None:
        self._payload = payload
        self._declared = {name: request.header(name) or "" for name in _HASHES if name in request.headers}
        self._hashes = {name: _HASHES[name]() for name in self._declared}

    def update(self, data: bytes) -> bytes:
        """Process the next part; return its content."""
        for checksum in self._hashes.values():
            checksum.update(data)
        return self._payload.update(data)

    def finish(self) -> None:
        """Deny the request if the payload or one of its checksums is wrong."""
        self._payload.finish()
        for name, checksum in self._hashes.items():
            actual = base64.b64encode(checksum.digest())
            if not hmac.compare_digest(actual, self._declared[name].encode()):
                raise DeniedError(
                    Reason.BAD_DIGEST, f"The {name} you specified did not match the calculated checksum."
                )
