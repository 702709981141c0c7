"""Checksums that a request declares for its content, in its headers or in its trailer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from tritonstack_local.access.denials import DeniedError, Reason
from tritonstack_local.access.payload import Payload
from tritonstack_local.access.requests import SentRequest


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
"""The checksums that are verified: Python's standard library has neither CRC32C nor CRC64NVME."""


class ChecksummedPayload:
    """A payload whose content must also match the checksums that the request declares."""

    def __init__(self, payload: Payload, request: SentRequest) -> None:
        self._payload = payload
        self._headers = {name: request.header(name) for name in _HASHES if name in request.headers}
        in_trailer = (request.header("x-amz-trailer") or "").lower().replace(" ", "").split(",")
        self._hashes = {
            name: make() for name, make in _HASHES.items() if name in {*self._headers, *in_trailer}
        }

    @property
    def trailer(self) -> Mapping[str, str]:
        """The headers that were sent after the content."""
        return self._payload.trailer

    def update(self, data: bytes) -> bytes:
        """Take the next piece; return the content in it."""
        content = self._payload.update(data)
        for hashed in self._hashes.values():
            hashed.update(content)
        return content

    def finish(self) -> None:
        """Deny the request if the payload or one of its checksums is wrong."""
        self._payload.finish()
        # A header is signed; a trailer may not be, and must not replace it.
        declared = {**self.trailer, **self._headers}
        for name, hashed in self._hashes.items():
            actual = base64.b64encode(hashed.digest()).decode()
            if not hmac.compare_digest(actual.encode(), (declared.get(name) or "").encode()):
                raise DeniedError(
                    Reason.BAD_DIGEST, f"The {name} you specified did not match the calculated checksum."
                )
