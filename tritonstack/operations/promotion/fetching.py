"""Fetch artifacts from a bucket into the local store: in ranges, with checksums, and atomically.

Downloads in progress are below `.fetching/` of the store, where no build or deployment looks. An interrupted
download is resumed. The folder moves to the artifact's final path only after all checksums match.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError, ResponseStreamingError

from tritonstack.base.error_kinds import CopyError, DamagedArtifactError
from tritonstack.base.errors import aws_error_code
from tritonstack.base.files import only_writer, sha256_of, short_digest, write_text_atomically
from tritonstack.facts.conditional_writes import CONFLICT_CODES
from tritonstack.operations.artifacts import StoredArtifact, published_manifest
from tritonstack.operations.promotion.checksums import agrees
from tritonstack.operations.promotion.reconnecting import CHUNK, OnBytes, Sleep, read_all
from tritonstack.project.checks.locks import mismatches
from tritonstack.records.examples import EXAMPLES_NAME
from tritonstack.records.manifests import ARCHIVE_NAME, MANIFEST_NAME, Manifest

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
