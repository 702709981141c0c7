"""Brings a model archive from S3 to a folder, trusting nothing in it.

Names are restricted to letters, digits and `. _ - /`: a Triton backend hands folder names to a shell.
"""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from catalog.errors import TritonstackError

# SageMaker's own limit is the instance's volume, 30 GB unless asked for; this machine's disk is shared.
UNPACKED_LIMIT_BYTES = 30 * 1024**3
MEMBER_LIMIT = 100_000
DEPTH_LIMIT = 100
_CHUNK_BYTES = 1 << 20
_SAFE_NAME = re.compile(r"[A-Za-z0-9._/-]+")

Checkpoint = Callable[[], None]
"""Called again and again during long work; raises to end it."""


class ArtifactError(TritonstackError):
    """The model archive cannot be had or must not be unpacked; the message becomes the failure reason."""


class MissingArtifactError(ArtifactError):
    """There is no such object, or S3 does not give it."""


def fetch(s3: Any, *, url: str, to: Path, container: str, checkpoint: Checkpoint) -> None:
    """Download the archive at an s3:// URL and unpack it into a folder; the archive itself does not stay."""
    archive = to.with_name(f"{to.name}.tar.gz")
    try:
        download(s3, url=url, to=archive, container=container, checkpoint=checkpoint)
        unpack(archive, to=to, url=url, container=container, checkpoint=checkpoint)
    finally:
        archive.unlink(missing_ok=True)


def download(s3: Any, *, url: str, to: Path, container: str = "primary", checkpoint: Checkpoint) -> None:
    """Copy the object at an s3:// URL to a file."""
    bucket, key = bucket_and_key(url)
    try:
        body = s3.get_object(Bucket=bucket, Key=key)["Body"]
        with to.open("wb") as file:
            for chunk in body.iter_chunks(_CHUNK_BYTES):
                checkpoint()
                file.write(chunk)
    except (ClientError, BotoCoreError) as fault:
        raise MissingArtifactError(
            f'Failed to download model data for container "{container}" from URL: "{url}". Please ensure '
            "that there is an object located at the URL and that the role passed to CreateModel has "
            f"permissions to download the object. ({fault})"
        ) from fault


def bucket_and_key(url: str) -> tuple[str, str]:
    """Take an s3:// URL apart."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def unpack(
    archive: Path,
    *,
    to: Path,
    url: str,
    container: str = "primary",
    checkpoint: Checkpoint,
    limit_bytes: int = UNPACKED_LIMIT_BYTES,
) -> None:
    """Unpack a tar.gz into a folder; refuse what would reach outside it or fill the disk."""
    guard = _Guard(limit_bytes=limit_bytes, checkpoint=checkpoint)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(to, filter=guard)  # noqa: S202  the guard is what the rule asks for
            _read_to_the_end(tar, guard)
    except (tarfile.FilterError, _UnsafeMemberError) as refused:
        raise ArtifactError(f'Refused to unpack the model data at "{url}": {refused}') from refused
    except (tarfile.TarError, EOFError, zlib.error, OSError) as fault:
        raise ArtifactError(
            f'Failed to extract model data archive from URL "{url}" for container "{container}". Please '
            f"ensure that the object located at the URL is a valid tar.gz archive. ({fault})"
        ) from fault


def _read_to_the_end(tar: tarfile.TarFile, guard: _Guard) -> None:
    """Read what follows the last member: only at the end of the stream is its checksum compared."""
    stream = tar.fileobj
    while stream is not None and (rest := stream.read(_CHUNK_BYTES)):
        guard.spend(len(rest))


class _UnsafeMemberError(TritonstackError):
    """A member of the archive that this cloud does not unpack."""


class _Guard:
    """An extraction filter: the standard library's against traversal, and limits of our own before it."""

    def __init__(self, *, limit_bytes: int, checkpoint: Checkpoint) -> None:
        self._left_bytes = limit_bytes
        self._left_members = MEMBER_LIMIT
        self._checkpoint = checkpoint

    def __call__(self, member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        for name in filter(None, (member.name, member.linkname)):
            if _SAFE_NAME.fullmatch(name) is None:
                raise _UnsafeMemberError(f"{name!r} holds more than letters, digits, '.', '_', '-' and '/'.")
            if name.startswith("/"):
                raise _UnsafeMemberError(f"{name!r} is an absolute path.")
            if name.count("/") > DEPTH_LIMIT:
                raise _UnsafeMemberError(f"{name[:60]!r}... lies more than {DEPTH_LIMIT} folders deep.")
        if ".." in Path(member.name).parts:
            raise _UnsafeMemberError(f"{member.name!r} leads out of the archive.")
        self._count(member)
        return tarfile.data_filter(member, path)

    def spend(self, size: int) -> None:
        """Take note of bytes that were unpacked."""
        self._checkpoint()
        self._left_bytes -= size
        if self._left_bytes < 0:
            raise _UnsafeMemberError("it unpacks to more than this machine allows a model.")

    def _count(self, member: tarfile.TarInfo) -> None:
        self.spend(member.size)
        self._left_members -= 1
        if self._left_members < 0:
            raise _UnsafeMemberError(f"it holds more than {MEMBER_LIMIT} members.")
