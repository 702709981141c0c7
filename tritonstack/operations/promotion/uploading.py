"""Upload archives to a bucket, and prove that S3 stores their bytes.

S3 shows an object only when it is complete. boto3 sends a large archive in parts, each with its SHA-256. The
bucket's lifecycle rule deletes the parts of an upload that was killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.operations.artifacts import StoredArtifact, is_archive_of
from tritonstack.operations.promotion.checksums import agrees
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE

PART_BYTES = 32 * 1024**2
_PARTS_AT_ONCE = 3
_READ = 1 << 20

Proof = Literal["S3's checksum", "read back"]
"""checksum: S3 computed it over the stored bytes. read back: every byte was downloaded and hashed."""
OnBytes = Callable[[int], None]


def land_archive(landing: StoredArtifact, archive: Path, *, on_bytes: OnBytes) -> Proof:
    """Upload an archive unless it is there; return how its integrity was proved."""
    s3 = landing.cloud.client("s3")
    if proof := _proof(s3, landing, archive):
        on_bytes(landing.entry.archive_bytes)
        return proof
    _upload(s3, landing, archive, on_bytes)
    if proof := _proof(s3, landing, archive):
        return proof
    raise DamagedArtifactError(
        f"{landing.url(ARCHIVE_NAME)} does not match the uploaded archive",
        remedy="rerun the command to upload it again",
    )


def _upload(s3: Any, landing: StoredArtifact, archive: Path, on_bytes: OnBytes) -> None:
    """Upload with S3's own errors, which `upload_file` hides in an error of boto3."""
    # boto3 is slow to import.
    from boto3.s3.transfer import ProgressCallbackInvoker, TransferConfig, create_transfer_manager  # noqa: PLC0415

    parts = TransferConfig(
        multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=_PARTS_AT_ONCE
    )
    settings = {
        "ChecksumAlgorithm": "SHA256",
        "ContentType": "application/gzip",
        "Metadata": {DIGEST_NOTE: landing.entry.digest},
    }
    progress = [ProgressCallbackInvoker(on_bytes)]
    with create_transfer_manager(s3, parts) as manager:
        manager.upload(str(archive), landing.bucket, landing.archive_key, settings, progress).result()


def _proof(s3: Any, landing: StoredArtifact, archive: Path) -> Proof | None:
    """Return the proof that the archive is complete; None if it is not there."""
    head = landing.head()
    if head is None or not is_archive_of(landing.entry, head):
        return None
    agreed = agrees(s3, bucket=landing.bucket, key=landing.archive_key, file=archive)
    if agreed is not None:
        return "S3's checksum" if agreed else None
    digest = hashlib.sha256()
    for block in s3.get_object(Bucket=landing.bucket, Key=landing.archive_key)["Body"].iter_chunks(_READ):
        digest.update(block)
    return "read back" if digest.hexdigest() == landing.entry.digest else None
