"""Upload archives to a bucket: atomically, and resumable after an interruption.

S3 shows an object only when it is complete. A large archive is uploaded in parts; an interrupted upload keeps
them, and the next run reuses each part with the right checksum. The bucket's lifecycle rule deletes abandoned
parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from botocore.exceptions import ClientError

from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.base.errors import aws_error_code
from tritonstack.base.naming import artifact_prefix
from tritonstack.operations.artifacts import find_object, is_archive_of
from tritonstack.operations.aws import Cloud
from tritonstack.operations.promotion.checksums import agrees, part_checksum
from tritonstack.records.locks import LockedArtifact
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE

PART_BYTES = 32 * 1024**2
_PARTS_AT_ONCE = 3
_READ = 1 << 20

Proof = Literal["S3's checksum", "read back"]
"""checksum: S3 computed it over the stored bytes. read back: every byte was downloaded and hashed."""
OnBytes = Callable[[int], None]


@dataclass(frozen=True)
class UploadTarget:
    """An archive's location in the target bucket, which encrypts it with its default key."""

    cloud: Cloud
    bucket: str
    model: str
    entry: LockedArtifact
    part_bytes: int = PART_BYTES

    @property
    def key(self) -> str:
        """Return the object key."""
        return f"{artifact_prefix(self.model, self.entry.digest)}/{ARCHIVE_NAME}"

    @property
    def place(self) -> dict[str, str]:
        """Return the parameters of S3 calls that identify it."""
        return {"Bucket": self.bucket, "Key": self.key}

    @property
    def settings(self) -> dict[str, Any]:
        """Return the parameters of all its uploads."""
        return {"ContentType": "application/gzip", "Metadata": {DIGEST_NOTE: self.entry.digest}}


def land_archive(landing: UploadTarget, archive: Path, *, on_bytes: OnBytes) -> Proof:
    """Upload an archive unless it is there; return how its integrity was proved."""
    s3 = landing.cloud.client("s3")
    proof = _proof(s3, landing, archive)
    if proof is not None:
        on_bytes(landing.entry.archive_bytes)
        return proof
    if landing.entry.archive_bytes <= landing.part_bytes:
        body = archive.read_bytes()
        checksum = {"ChecksumAlgorithm": "SHA256", "ChecksumSHA256": part_checksum(body)}
        s3.put_object(**landing.place, Body=body, **checksum, **landing.settings)
        on_bytes(len(body))
    else:
        _land_in_parts(s3, landing, archive, on_bytes)
    proof = _proof(s3, landing, archive)
    if proof is None:
        raise DamagedArtifactError(
            f"s3://{landing.bucket}/{landing.key} does not match the uploaded archive",
            remedy="rerun the command to upload it again",
        )
    return proof


def _proof(s3: Any, landing: UploadTarget, archive: Path) -> Proof | None:
    """Return the proof that the archive is complete; None if it is not there."""
    head = find_object(s3, landing.bucket, landing.key)
    if head is None or not is_archive_of(landing.entry, head):
        return None
    agreed = agrees(s3, bucket=landing.bucket, key=landing.key, file=archive)
    if agreed is not None:
        return "S3's checksum" if agreed else None
    digest = hashlib.sha256()
    for block in s3.get_object(**landing.place)["Body"].iter_chunks(_READ):
        digest.update(block)
    return "read back" if digest.hexdigest() == landing.entry.digest else None


def _land_in_parts(s3: Any, landing: UploadTarget, archive: Path, on_bytes: OnBytes) -> None:
    upload = _begun(s3, landing) or _begin(s3, landing)
    try:
        parts = _send(s3, landing, upload, archive, on_bytes)
        s3.complete_multipart_upload(**landing.place, UploadId=upload, MultipartUpload={"Parts": parts})
    except ClientError as error:
        # A concurrent promotion of the same archive has completed this upload.
        if aws_error_code(error) != "NoSuchUpload" or find_object(s3, landing.bucket, landing.key) is None:
            raise


def _begin(s3: Any, landing: UploadTarget) -> str:
    answer = s3.create_multipart_upload(**landing.place, ChecksumAlgorithm="SHA256", **landing.settings)
    return str(answer["UploadId"])


def _begun(s3: Any, landing: UploadTarget) -> str | None:
    """Return the latest unfinished upload to the same key."""
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=landing.bucket, Prefix=landing.key)
    uploads = [
        upload
        for page in pages
        for upload in page.get("Uploads", ())
        if upload["Key"] == landing.key and upload.get("ChecksumAlgorithm") == "SHA256"
    ]
    return max(uploads, key=lambda upload: upload["Initiated"])["UploadId"] if uploads else None


def _send(
    s3: Any, landing: UploadTarget, upload: str, archive: Path, on_bytes: OnBytes
) -> list[dict[str, Any]]:
    """Send the missing parts; return all parts as S3 expects them."""
    pages = s3.get_paginator("list_parts").paginate(**landing.place, UploadId=upload)
    uploaded = {part["PartNumber"]: part for page in pages for part in page.get("Parts", ())}

    def send(number: int) -> dict[str, Any]:
        body = _part(archive, number, landing.part_bytes)
        checksum, found = part_checksum(body), uploaded.get(number)
        if found is None or not _is_part(found, body, checksum):
            found = s3.upload_part(
                **landing.place, UploadId=upload, PartNumber=number, Body=body, ChecksumSHA256=checksum
            )
        on_bytes(len(body))
        return {"PartNumber": number, "ETag": found["ETag"], "ChecksumSHA256": checksum}

    pool = ThreadPoolExecutor(_PARTS_AT_ONCE)
    try:
        return list(pool.map(send, _numbers(landing)))
    finally:
        pool.shutdown(cancel_futures=True)


def _numbers(landing: UploadTarget) -> Iterator[int]:
    return iter(range(1, -(-landing.entry.archive_bytes // landing.part_bytes) + 1))


def _part(archive: Path, number: int, part_bytes: int) -> bytes:
    with archive.open("rb") as stream:
        stream.seek((number - 1) * part_bytes)
        return stream.read(part_bytes)


def _is_part(found: Mapping[str, Any], body: bytes, checksum: str) -> bool:
    """Return whether S3 has these bytes: by its checksum, or by an ETag that is their MD5."""
    if found["Size"] != len(body):
        return False
    if "ChecksumSHA256" in found:
        return bool(found["ChecksumSHA256"] == checksum)
    return bool(found["ETag"].strip('"') == hashlib.md5(body, usedforsecurity=False).hexdigest())
