"""Fetch artifacts from a bucket into the local store: in ranges, with checksums, and atomically.

Downloads in progress are below `.fetching/` of the store, where no build or deployment looks. An interrupted
download is resumed. The folder moves to the artifact's final path only after all checksums match.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError, ResponseStreamingError

from tritonstack.base.error_kinds import CopyError, DamagedArtifactError
from tritonstack.base.errors import aws_error_code
from tritonstack.base.files import only_writer, sha256_of, short_digest, write_text_atomically
from tritonstack.facts.conditional_writes import CONFLICT_CODES
from tritonstack.files.checks.locks import mismatches
from tritonstack.files.records.examples import EXAMPLES_NAME
from tritonstack.files.records.manifests import ARCHIVE_NAME, DIGEST_NOTE, MANIFEST_NAME, Manifest
from tritonstack.operate.shared.artifacts import (
    StoredArtifact,
    copy_object,
    is_archive_of,
    is_published,
    published_manifest,
)
from tritonstack.operate.shared.aws import Cloud

# S3 computes SHA-256 over the bytes that it stores. A single-part object has the checksum of its bytes; a
# multipart object has the checksum of its parts' checksums, which depends on the part size. Both prove every
# stored byte without reading it back.


_BLOCK = 1 << 20


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
            while remaining and (block := stream.read(min(_BLOCK, remaining))):
                digest.update(block)
                remaining -= len(block)
            if remaining == part_bytes:
                return
            yield digest.digest()


PAUSES_S = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Pauses between attempts of a download that receive nothing."""
CHUNK = 1 << 20

OnBytes = Callable[[int], None]
Sleep = Callable[[float], object]


def read_all(
    read_from: Callable[[int], Iterator[bytes]],
    size: int,
    have: int = 0,
    *,
    breaks: tuple[type[Exception], ...],
    sleep: Sleep,
    give_up: Callable[[int, str], Exception],
) -> Iterator[bytes]:
    """Yield the bytes from `have` to `size`; `read_from` opens a connection at an offset.

    `breaks` are the errors of dropped connections; `give_up` returns the error for a position and a failure.
    """
    pauses = iter(PAUSES_S)
    while have < size:
        failure = "it ended early"
        try:
            for block in read_from(have):
                have, pauses = have + len(block), iter(PAUSES_S)
                yield block
        except breaks as error:
            failure = str(error) or type(error).__name__
        if have < size:
            if (pause := next(pauses, None)) is None:
                raise give_up(have, failure)
            sleep(pause)


# S3 shows an object only when it is complete. boto3 sends a large archive in parts, each with its SHA-256.
# The bucket's lifecycle rule deletes the parts of an upload that was killed.


PART_BYTES = 32 * 1024**2
_PARTS_AT_ONCE = 3

Proof = Literal["S3's checksum", "read back"]
"""checksum: S3 computed it over the stored bytes. read back: every byte was downloaded and hashed."""


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
    for block in s3.get_object(Bucket=landing.bucket, Key=landing.archive_key)["Body"].iter_chunks(CHUNK):
        digest.update(block)
    return "read back" if digest.hexdigest() == landing.entry.digest else None


_FETCHING = ".fetching"
_BREAKS = (HTTPClientError, IncompleteReadError, ResponseStreamingError)
"""A dropped connection; received bytes are kept."""


def read_source_manifest(source: StoredArtifact) -> Manifest:
    """Return an artifact's manifest from its bucket; reject one that differs from the lock."""
    manifest = published_manifest(
        source.cloud.client("s3"), bucket=source.bucket, model=source.model, digest=source.entry.digest
    )
    if manifest is None:
        raise DamagedArtifactError(
            f"{source.url(MANIFEST_NAME)} not found: cannot promote artifact "
            f"{short_digest(source.entry.digest)} of {source.model!r}",
            remedy="publish it: build or deploy the environment that it is promoted from",
        )
    others = [
        mismatch.description
        for mismatch in mismatches(source.entry, manifest, target=source.target)
        if mismatch.untrue
    ]
    if manifest.model != source.model:
        others.append(f"it belongs to model {manifest.model!r}")
    if others:
        raise DamagedArtifactError(
            f"{source.url(MANIFEST_NAME)} does not match the lock: {'; '.join(others)}",
            remedy="run `tritonstack validate` to see whether the lock is wrong; otherwise rebuild the "
            "artifact",
        )
    return manifest


def fetch_artifact(
    source: StoredArtifact, manifest: Manifest, *, store: Path, on_bytes: OnBytes, sleep: Sleep = time.sleep
) -> Path:
    """Fetch an artifact unless it is local; return its folder. `on_bytes` receives the progress."""
    final, staging = store / source.prefix, store / _FETCHING / source.model / source.entry.digest
    with only_writer(staging):
        if _is_here(final, source):
            on_bytes(source.entry.archive_bytes)
            _fetch_examples(source, manifest, final)
        else:
            folder = staging / "artifact"
            folder.mkdir(exist_ok=True)
            _fetch_archive(source, folder / ARCHIVE_NAME, on_bytes, sleep)
            _fetch_examples(source, manifest, folder)
            _put_in_place(folder, final, manifest)
    return final


def _is_here(final: Path, source: StoredArtifact) -> bool:
    """Return whether the store has it and S3's checksum confirms that the source is identical.

    Without a checksum it is fetched, because the promotion must fail if the source's copy is damaged.
    """
    archive = final / ARCHIVE_NAME
    if not (final / MANIFEST_NAME).is_file() or not archive.is_file():
        return False
    if sha256_of(archive) != source.entry.digest:
        return False
    s3, key = source.cloud.client("s3"), source.archive_key
    return source.head() is not None and bool(agrees(s3, bucket=source.bucket, key=key, file=archive))


def _fetch_archive(source: StoredArtifact, partial: Path, on_bytes: OnBytes, sleep: Sleep) -> None:
    began_with = partial.stat().st_size if partial.exists() else 0
    on_bytes(began_with)
    _download(source, partial, on_bytes, sleep)
    if began_with and sha256_of(partial) != source.entry.digest:
        # An interrupted run may have fetched another object, or not have flushed this one to disk.
        partial.unlink()
        on_bytes(-source.entry.archive_bytes)
        _download(source, partial, on_bytes, sleep)
    digest = sha256_of(partial)
    if digest != source.entry.digest:
        partial.unlink()
        raise DamagedArtifactError(
            f"checksum mismatch for {source.url(ARCHIVE_NAME)}: got {short_digest(digest)}…, "
            f"lock expects {short_digest(source.entry.digest)}…; nothing was copied",
            remedy="endpoints that serve it may be damaged too: delete it and its manifest there, "
            "and republish it with `tritonstack build` of the source environment",
        )


def _download(source: StoredArtifact, partial: Path, on_bytes: OnBytes, sleep: Sleep) -> None:
    """Append to the partial file until it is complete."""
    size, have = source.entry.archive_bytes, partial.stat().st_size if partial.exists() else 0
    if have > size:
        partial.unlink()
        on_bytes(-have)
        have = 0

    def give_up(_: int, failure: str) -> CopyError:
        message = f"cannot fetch {source.url(ARCHIVE_NAME)}: {failure}"
        return CopyError(message, remedy="rerun the command; it resumes the download")

    for block in read_all(
        lambda start: _blocks(source, start), size, have, breaks=_BREAKS, sleep=sleep, give_up=give_up
    ):
        with partial.open("ab") as stream:
            stream.write(block)
        on_bytes(len(block))


def _blocks(source: StoredArtifact, start: int) -> Iterator[bytes]:
    s3, head = source.cloud.client("s3"), source.head()
    if head is None or head["ContentLength"] != source.entry.archive_bytes:
        failure = "is missing" if head is None else f"has {head['ContentLength']} bytes"
        raise DamagedArtifactError(
            f"{source.url(ARCHIVE_NAME)} {failure}, lock expects {source.entry.archive_bytes} bytes; nothing "
            "was copied",
            remedy="delete it and its manifest there, and republish it with `tritonstack build`",
        )
    try:
        answer = s3.get_object(
            Bucket=source.bucket, Key=source.archive_key, Range=f"bytes={start}-", IfMatch=head["ETag"]
        )
    except ClientError as error:
        if aws_error_code(error) not in CONFLICT_CODES:
            raise
        raise DamagedArtifactError(
            f"{source.url(ARCHIVE_NAME)} was replaced while it was read; nothing was copied",
            remedy="rerun the command",
        ) from None
    yield from answer["Body"].iter_chunks(CHUNK)


def _fetch_examples(source: StoredArtifact, manifest: Manifest, folder: Path) -> None:
    """Fetch the examples stored beside an artifact, if any.

    A manifest that is already local is updated to name them.
    """
    if manifest.examples_sha256 is None:
        return
    file = folder / EXAMPLES_NAME
    if file.is_file() and sha256_of(file) == manifest.examples_sha256:
        return
    write_text_atomically(file, read_source_examples(source, manifest).decode())
    if (folder / MANIFEST_NAME).is_file():
        write_text_atomically(folder / MANIFEST_NAME, manifest.to_json())


def read_source_examples(source: StoredArtifact, manifest: Manifest) -> bytes:
    """Return the examples stored beside an artifact; reject others than its manifest names."""
    key = f"{source.prefix}/{EXAMPLES_NAME}"
    body: bytes = source.cloud.client("s3").get_object(Bucket=source.bucket, Key=key)["Body"].read()
    if hashlib.sha256(body).hexdigest() != manifest.examples_sha256:
        raise DamagedArtifactError(
            f"{source.url(EXAMPLES_NAME)} does not match its manifest; nothing was copied",
            remedy="republish it with `tritonstack build` of the source environment",
        )
    return body


def _put_in_place(folder: Path, final: Path, manifest: Manifest) -> None:
    """Move a complete artifact to its final path; delete a damaged one first, its manifest before the
    rest."""
    write_text_atomically(folder / MANIFEST_NAME, manifest.to_json())
    if final.exists():
        (final / MANIFEST_NAME).unlink(missing_ok=True)
        shutil.rmtree(final)
    final.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(final)


def copy_in_account(source: StoredArtifact, *, cloud: Cloud, bucket: str) -> None:
    """Copy an artifact and its examples, the manifest last; skip existing objects.

    `cloud` is that of the target bucket. Can be interrupted and repeated.
    """
    if is_published(cloud, bucket=bucket, model=source.model, artifact=source.entry):
        return
    manifest = read_source_manifest(source)
    s3, key, head = cloud.client("s3"), source.archive_key, source.head()
    if head is None or not is_archive_of(source.entry, head):
        failure = "is missing" if head is None else "does not match the lock"
        raise DamagedArtifactError(
            f"{source.url(ARCHIVE_NAME)} {failure}",
            remedy="delete it if it exists, and republish it with `tritonstack build`",
        )
    # S3 would copy the `superseded` tag, and require tagging permissions.
    unmarked = {"TaggingDirective": "REPLACE"}
    settings = {"Metadata": {DIGEST_NOTE: source.entry.digest}, "ContentType": "application/gzip"}
    origin = {"Bucket": source.bucket, "Key": key}
    condition = {"CopySourceIfMatch": head["ETag"]}
    copy_object(
        s3, origin, bucket=bucket, settings=unmarked | settings | condition, source=source.cloud.client("s3")
    )
    # What was read and checked is written, because S3 would copy what the source has by then.
    bodies = {MANIFEST_NAME: manifest.to_json().encode()}
    if manifest.examples_sha256 is not None:
        bodies = {EXAMPLES_NAME: read_source_examples(source, manifest), **bodies}
    for name, body in bodies.items():
        s3.put_object(Bucket=bucket, Key=f"{source.prefix}/{name}", Body=body, ContentType="application/json")
