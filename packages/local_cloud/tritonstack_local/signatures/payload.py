"""Check request bodies against their signatures and checksums, chunk by chunk; no body is held in memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from tritonstack_local.signatures.requests import DeniedError, Reason, SentRequest

UNSIGNED = "UNSIGNED-PAYLOAD"
STREAMING = "STREAMING-"
STREAMING_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

_LONGEST_LINE = 16 * 1024
_SIZE_LINE = re.compile(rb"[0-9a-fA-F]{1,16}")


class Payload(Protocol):
    """A check of one body."""

    def update(self, data: bytes) -> bytes:
        """Process the next part of the request body; return its content."""

    def finish(self) -> None:
        """Deny the request if the body does not match the signature."""

    @property
    def trailer(self) -> Mapping[str, str]:
        """The headers that were sent after the content."""


class AnyPayload:
    """A body that the signature does not cover."""

    trailer: Mapping[str, str] = {}

    def update(self, data: bytes) -> bytes:
        """Accept it."""
        return data

    def finish(self) -> None:
        """Accept it."""


class HashedPayload:
    """A body whose SHA-256 `check` verifies."""

    trailer: Mapping[str, str] = {}

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


class ChunkedPayload:
    """A body in S3's aws-chunked encoding, with unsigned chunks and checksums in the trailer."""

    def __init__(self, length: int) -> None:
        """`length` is that of the decoded body."""
        self._expected = length
        self._line = b""
        self._left = 0
        self._decoded = 0
        self._trailer: list[bytes] = []
        self._state: Callable[[bytes], None] = self._size_line

    @property
    def trailer(self) -> Mapping[str, str]:
        """The headers that were sent after the last chunk."""
        pairs = (line.decode("latin-1").partition(":") for line in self._trailer)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    def update(self, data: bytes) -> bytes:
        """Process the next part; return the content of its chunks."""
        return b"".join(self._content(memoryview(data)))

    def _content(self, view: memoryview) -> Iterator[memoryview]:
        while view:
            if self._left:
                taken = view[: self._left]
                self._left -= len(taken)
                view = view[len(taken) :]
                yield taken
            else:
                view = self._next_line(view)

    def finish(self) -> None:
        """Deny a truncated body, and a body of another than the declared length."""
        if self._state != self._after_the_end or self._line or self._decoded != self._expected:
            raise DeniedError(Reason.INCOMPLETE_BODY)

    def _next_line(self, view: memoryview) -> memoryview:
        piece = bytes(view[:_LONGEST_LINE])
        end = piece.find(b"\n")
        self._line += piece if end < 0 else piece[: end + 1]
        if len(self._line) > _LONGEST_LINE:
            raise DeniedError(Reason.INCOMPLETE_BODY)
        if end < 0:
            return view[len(piece) :]
        line, self._line = self._line.removesuffix(b"\n").removesuffix(b"\r"), b""
        self._state(line)
        return view[end + 1 :]

    def _size_line(self, line: bytes) -> None:
        if _SIZE_LINE.fullmatch(line) is None:
            raise DeniedError(Reason.INCOMPLETE_BODY)
        self._left = int(line, 16)
        self._decoded += self._left
        if self._decoded > self._expected:
            raise DeniedError(Reason.INCOMPLETE_BODY)
        self._state = self._after_chunk if self._left else self._trailer_line

    def _after_chunk(self, line: bytes) -> None:
        if line:
            raise DeniedError(Reason.INCOMPLETE_BODY)
        self._state = self._size_line

    def _trailer_line(self, line: bytes) -> None:
        """Process a line of the trailer; an empty line ends it."""
        if not line:
            self._state = self._after_the_end
            return
        self._trailer.append(line)
        if sum(map(len, self._trailer)) > _LONGEST_LINE:
            raise DeniedError(Reason.INCOMPLETE_BODY)

    def _after_the_end(self, _: bytes) -> None:
        raise DeniedError(Reason.INCOMPLETE_BODY)


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
    """A payload whose content must also match the request's checksums."""

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
        """Process the next part; return its content."""
        content = self._payload.update(data)
        for hashed in self._hashes.values():
            hashed.update(content)
        return content

    def finish(self) -> None:
        """Deny the request if the payload or one of its checksums is wrong."""
        self._payload.finish()
        # Headers are signed; trailers may be unsigned and must not replace them.
        declared = {**self.trailer, **self._headers}
        for name, hashed in self._hashes.items():
            actual = base64.b64encode(hashed.digest()).decode()
            if not hmac.compare_digest(actual.encode(), (declared.get(name) or "").encode()):
                raise DeniedError(
                    Reason.BAD_DIGEST, f"The {name} you specified did not match the calculated checksum."
                )
