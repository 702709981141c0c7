"""Artifacts out of a bucket into this machine's store: by ranges, hashed, and whole or not at all.

What is on its way lies below `.fetching/` of the store, where no build and no deploy looks. A fetch that was
killed leaves there as much as it had, and the next one goes on from that. Only when every byte is right does
the folder move to the artifact's own place, in one step.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError, ResponseStreamingError

from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import only_writer, sha256_of, write_text_atomically
from tritonstack.base.naming import artifact_prefix
from tritonstack.operations.artifacts import DamagedArtifactError, find_object
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.operations.promotion.checksums import agrees
from tritonstack.project.checks.locks import unlikes
from tritonstack.records.examples import EXAMPLES_NAME
from tritonstack.records.locks import LockedArtifact
from tritonstack.records.manifests import ARCHIVE_NAME, MANIFEST_NAME, Manifest, parse_manifest

_FETCHING = ".fetching"
_CHUNK = 1 << 20
_BREAKS = (HTTPClientError, IncompleteReadError, ResponseStreamingError)
"""A connection that ended early; what has arrived is kept."""
_TRIES = 5

OnBytes = Callable[[int], None]


@dataclass(frozen=True)
class SourceArtifact:
    """An artifact where it is promoted from."""

    cloud: Cloud
    bucket: str
    model: str
    target: str
    entry: LockedArtifact

    @property
    def prefix(self) -> str:
        """Where it lies in the bucket, and in the store."""
        return artifact_prefix(self.model, self.entry.digest)

    def url(self, name: str) -> str:
        """One of its files, for people."""
        return f"s3://{self.bucket}/{self.prefix}/{name}"


def read_source_manifest(source: SourceArtifact) -> Manifest:
    """What the bucket says of an artifact; refused where the lock says anything else."""
    s3, key = source.cloud.client("s3"), f"{source.prefix}/{MANIFEST_NAME}"
    try:
        body = s3.get_object(Bucket=source.bucket, Key=key)["Body"].read()
    except ClientError as error:
        if error_code(error) in ("NoSuchKey", "NoSuchBucket", "404"):
            raise DamagedArtifactError(
                f"{source.url(MANIFEST_NAME)} is missing: there is no artifact {source.entry.digest[:12]} of "
                f"{source.model!r} to promote",
                remedy="publish it there: build or deploy the environment that it comes from",
            ) from None
        raise
    manifest = parse_manifest(body, origin=source.url(MANIFEST_NAME))
    others = [one.words for one in unlikes(source.entry, manifest, target=source.target) if one.untrue]
    if manifest.model != source.model:
        others.append(f"it is of the model {manifest.model!r}")
    if others:
        raise DamagedArtifactError(
            f"{source.url(MANIFEST_NAME)} is not what the lock names: {'; '.join(others)}",
            remedy="`tritonstack validate` says whether it is the lock that is wrong; else build it again",
        )
    return manifest


def fetch_artifact(source: SourceArtifact, manifest: Manifest, *, store: Path, on_bytes: OnBytes) -> Path:
    """Bring an artifact here, or find it here; its folder. `on_bytes` hears what of it has arrived."""
    final, staging = store / source.prefix, store / _FETCHING / source.model / source.entry.digest
    with only_writer(staging):
        if _is_here(final, source):
            on_bytes(source.entry.archive_bytes)
            _fetch_examples(source, manifest, final)
        else:
            folder = staging / "artifact"
            folder.mkdir(exist_ok=True)
            _fetch_archive(source, folder / ARCHIVE_NAME, on_bytes)
            _fetch_examples(source, manifest, folder)
            _put_in_place(folder, final, manifest)
    return final


def _is_here(final: Path, source: SourceArtifact) -> bool:
    """Whether the store holds it, and the source's own copy is the same by S3's word.

    Without that word it is fetched: what serves in the source is what is promoted, damaged or not.
    """
    archive = final / ARCHIVE_NAME
    if not (final / MANIFEST_NAME).is_file() or not archive.is_file():
        return False
    if sha256_of(archive) != source.entry.digest:
        return False
    s3, key = source.cloud.client("s3"), f"{source.prefix}/{ARCHIVE_NAME}"
    return find_object(s3, source.bucket, key) is not None and bool(
        agrees(s3, bucket=source.bucket, key=key, file=archive)
    )


def _fetch_archive(source: SourceArtifact, partial: Path, on_bytes: OnBytes) -> None:
    began_with = partial.stat().st_size if partial.exists() else 0
    on_bytes(began_with)
    _download(source, partial, on_bytes)
    if began_with and sha256_of(partial) != source.entry.digest:
        # What an earlier run left may have been of another object, or not have reached the disk.
        partial.unlink()
        on_bytes(-source.entry.archive_bytes)
        _download(source, partial, on_bytes)
    found = sha256_of(partial)
    if found != source.entry.digest:
        partial.unlink()
        raise DamagedArtifactError(
            f"a bad artifact is stopped here: the SHA-256 of {source.url(ARCHIVE_NAME)} is {found[:12]}…, "
            f"and the lock names {source.entry.digest[:12]}…; nothing was copied",
            remedy="what serves from it may be damaged, too: delete it there with its manifest, and publish "
            "it again with `tritonstack build` of the environment that it comes from",
        )


def _download(source: SourceArtifact, partial: Path, on_bytes: OnBytes) -> None:
    """Append to what is there until all is there; connections that break are taken up again."""
    size, last_break = source.entry.archive_bytes, None
    for _ in range(_TRIES):
        have = partial.stat().st_size if partial.exists() else 0
        if have > size:
            partial.unlink()
            on_bytes(-have)
            have = 0
        if have == size:
            return
        try:
            for block in _blocks(source, have):
                with partial.open("ab") as stream:
                    stream.write(block)
                on_bytes(len(block))
        except _BREAKS as fault:
            last_break = fault
    if not partial.exists() or partial.stat().st_size != size:
        raise TritonstackError(
            f"{source.url(ARCHIVE_NAME)} could not be fetched: {last_break}",
            remedy="run the same command again: it goes on from where it was",
        )


def _blocks(source: SourceArtifact, start: int) -> Iterator[bytes]:
    key = f"{source.prefix}/{ARCHIVE_NAME}"
    s3 = source.cloud.client("s3")
    head = find_object(s3, source.bucket, key)
    if head is None or head["ContentLength"] != source.entry.archive_bytes:
        what = "is missing" if head is None else f"has {head['ContentLength']} bytes"
        raise DamagedArtifactError(
            f"a bad artifact is stopped here: {source.url(ARCHIVE_NAME)} {what}, and the lock says "
            f"{source.entry.archive_bytes}; nothing was copied",
            remedy="delete it there with its manifest, and publish it again with `tritonstack build`",
        )
    found = s3.get_object(Bucket=source.bucket, Key=key, Range=f"bytes={start}-", IfMatch=head["ETag"])
    yield from found["Body"].iter_chunks(_CHUNK)


def _fetch_examples(source: SourceArtifact, manifest: Manifest, folder: Path) -> None:
    """The requests and right answers that lie beside an artifact, if its build has left any.

    The manifest of a folder that is whole already comes to name them.
    """
    if manifest.examples_sha256 is None:
        return
    file = folder / EXAMPLES_NAME
    if file.is_file() and sha256_of(file) == manifest.examples_sha256:
        return
    key = f"{source.prefix}/{EXAMPLES_NAME}"
    body = source.cloud.client("s3").get_object(Bucket=source.bucket, Key=key)["Body"].read()
    if hashlib.sha256(body).hexdigest() != manifest.examples_sha256:
        raise DamagedArtifactError(
            f"{source.url(EXAMPLES_NAME)} is not the file that its manifest names; nothing was copied",
            remedy="publish it again with `tritonstack build` of the environment that it comes from",
        )
    write_text_atomically(file, body.decode())
    if (folder / MANIFEST_NAME).is_file():
        write_text_atomically(folder / MANIFEST_NAME, manifest.to_json())


def _put_in_place(folder: Path, final: Path, manifest: Manifest) -> None:
    """Give a whole artifact its place; a damaged one that lies there goes, its manifest first."""
    write_text_atomically(folder / MANIFEST_NAME, manifest.to_json())
    if final.exists():
        (final / MANIFEST_NAME).unlink(missing_ok=True)
        shutil.rmtree(final)
    final.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(final)
