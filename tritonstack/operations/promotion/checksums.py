"""Compare S3's own checksums of an object with a local file.

S3 computes SHA-256 over the bytes that it stores. A single-part object has the checksum of its bytes; a
multipart object has the checksum of its parts' checksums, which depends on the part size. Both prove every
stored byte without reading it back.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tritonstack.base.files import sha256_of

_READ = 1 << 20


def agrees(s3: Any, *, bucket: str, key: str, file: Path) -> bool | None:
    """Return whether an object matches a file, by S3's checksum; None if it has none."""
    head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    if head["ContentLength"] != file.stat().st_size:
        return False
    recorded = head.get("ChecksumSHA256")
    if recorded is None:
        return None
    checksum = base64.b64decode(recorded.partition("-")[0])
    if "-" not in head["ETag"]:
        return bool(checksum == bytes.fromhex(sha256_of(file)))
    first = s3.head_object(Bucket=bucket, Key=key, PartNumber=1)
    parts = hashlib.sha256(b"".join(_part_digests(file, first["ContentLength"])))
    return bool(checksum == parts.digest())


def _part_digests(file: Path, part_bytes: int) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while True:
            digest, remaining = hashlib.sha256(), part_bytes
            while remaining and (block := stream.read(min(_READ, remaining))):
                digest.update(block)
                remaining -= len(block)
            if remaining == part_bytes:
                return
            yield digest.digest()
