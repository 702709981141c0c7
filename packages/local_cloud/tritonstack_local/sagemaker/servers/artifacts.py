"""Download a model archive from S3 and unpack it; the archive is untrusted.

Names are restricted to letters, digits, and `. _ - /`: a Triton backend passes folder names to a shell. Links
are rejected: the archives that `build` makes have none, and so every name is the place where it says.
"""

from __future__ import annotations

import gzip
import os
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.service.errors import ReplyError

MEMBER_LIMIT = 100_000
DEPTH_LIMIT = 100
NAME_LIMIT = 1024
FIELD_LIMIT = 4096
# Overhead per member: headers and padding.
HEADER_LIMIT_BYTES = 1 << 20
PADDING_LIMIT_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
_SAFE_NAME = re.compile(r"[A-Za-z0-9._/-]+")

Checkpoint = Callable[[], None]
"""Called repeatedly during long work; raises to cancel it."""


class ArtifactError(ReplyError):
    """The model archive is missing or invalid; the message becomes the failure reason."""


class MissingArtifactError(ArtifactError):
    """The object does not exist or is not readable."""


class Space:
    """Disk space for an archive and its content: a number of bytes; by default, the free disk space."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._taken = 0

    def take(self, size: int) -> None:
        """Reserve bytes before writing them; raise if there is no space."""
        self._taken += size
        if self._limit_bytes is not None and self._taken > self._limit_bytes:
            raise does_not_fit(self._limit_bytes)

    def release(self, size: int) -> None:
        """Release the bytes of removed files."""
        self._taken -= size


def does_not_fit(limit_bytes: int) -> ArtifactError:
    """Return the error for an archive that does not fit on the disk."""
    return ArtifactError(
        f"The model data does not fit on the instance's volume of {limit_bytes / 2**30:g} GB: its archive "
        "and what it unpacks to are larger. Give the variant a larger VolumeSizeInGB."
    )


def fetch(
    s3: Any, *, url: str, to: Path, container: str, checkpoint: Checkpoint, space: Space | None = None
) -> None:
    """Download the archive at an s3:// URL and unpack it to a folder; delete the archive."""
    space = space or Space()
    archive = to.with_name(f"{to.name}.tar.gz")
    try:
        download(s3, url=url, to=archive, container=container, checkpoint=checkpoint, space=space)
        unpack(archive, to=to, url=url, container=container, checkpoint=checkpoint, space=space)
        space.release(archive.stat().st_size)
    finally:
        archive.unlink(missing_ok=True)


def download(
    s3: Any,
    *,
    url: str,
    to: Path,
    container: str = "primary",
    checkpoint: Checkpoint,
    space: Space | None = None,
) -> None:
    """Copy the object at an s3:// URL to a file."""
    space = space or Space()
    bucket, key = bucket_and_key(url)
    try:
        body = s3.get_object(Bucket=bucket, Key=key)["Body"]
        with to.open("wb") as file:
            for chunk in body.iter_chunks(_CHUNK_BYTES):
                checkpoint()
                space.take(len(chunk))
                file.write(chunk)
    except (ClientError, BotoCoreError) as error:
        raise MissingArtifactError(
            f'Failed to download model data for container "{container}" from URL: "{url}". Please ensure '
            "that there is an object located at the URL and that the role passed to CreateModel has "
            f"permissions to download the object. ({error})"
        ) from error


def bucket_and_key(url: str) -> tuple[str, str]:
    """Return bucket and key of an s3:// URL."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def unpack(
    archive: Path,
    *,
    to: Path,
    url: str,
    container: str = "primary",
    checkpoint: Checkpoint,
    space: Space | None = None,
) -> None:
    """Unpack a tar.gz to a folder; reject members that leave it or fill the disk."""
    space = space or Space()
    try:
        with gzip.open(archive) as compressed:
            stream = _Stream(compressed, checkpoint)
            with tarfile.TarFile(fileobj=cast("Any", stream), tarinfo=_Member) as tar:
                for number, member in enumerate(tar):
                    if number == MEMBER_LIMIT:
                        raise _UnsafeMemberError(f"it holds more than {MEMBER_LIMIT} members.")
                    _check(member)
                    space.take(member.size)
                    _extract(member, stream, to / posixpath.normpath(member.name))
            stream.read_to_the_end()
        open_folders(to)
    except _UnsafeMemberError as rejected:
        raise ArtifactError(f'Cannot unpack the model data at "{url}": {rejected}') from rejected
    except (tarfile.TarError, EOFError, zlib.error, OSError, RecursionError, OverflowError) as error:
        raise ArtifactError(
            f'Failed to extract model data archive from URL "{url}" for container "{container}". Please '
            f"ensure that the object located at the URL is a valid tar.gz archive. ({error})"
        ) from error


def open_folders(top: Path) -> None:
    """Let a container's user read a model, whatever this process's umask is: the cloud's folder is closed."""
    for folder, _, _ in os.walk(top):
        os.chmod(folder, 0o755)  # noqa: S103


class _UnsafeMemberError(ReplyError):
    """An archive member that is rejected."""


class _Stream:
    """The decompressed archive."""

    def __init__(self, stream: gzip.GzipFile, checkpoint: Checkpoint) -> None:
        self._stream = stream
        self._checkpoint = checkpoint
        self._last = b""
        self.tell, self.seek = stream.tell, stream.seek

    def read(self, size: int) -> bytes:
        """Read bytes."""
        self._checkpoint()
        self._last = self._stream.read(size)
        return self._last

    def read_to_the_end(self) -> None:
        """Read the rest of the stream, to verify its checksum.

        tarfile treats any end of stream, and a damaged header, as the end of the archive.
        """
        if self._last != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("the archive is truncated: it has no end-of-archive block")
        budget = PADDING_LIMIT_BYTES
        while content := self.read(_CHUNK_BYTES):
            budget -= len(content)
            if budget < 0:
                raise _UnsafeMemberError(f"more than {PADDING_LIMIT_BYTES >> 20} MiB follow its last member.")


class _Member(tarfile.TarInfo):
    """An entry, whose extended headers tarfile reads whole, whatever length they claim."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        """Read a header; reject an extended one that is too long."""
        member = super().frombuf(buf, encoding, errors)
        if not (member.isreg() or member.isdir()) and member.size > HEADER_LIMIT_BYTES:
            raise _UnsafeMemberError(f"it holds headers that are larger than {HEADER_LIMIT_BYTES >> 20} MiB.")
        return member


def _check(member: tarfile.TarInfo) -> None:
    name = member.name
    if _SAFE_NAME.fullmatch(name) is None:
        raise _UnsafeMemberError(f"{name[:60]!r} holds more than letters, digits, '.', '_', '-' and '/'.")
    if name.startswith("/") or ".." in name.split("/"):
        raise _UnsafeMemberError(f"{name[:60]!r} leads out of the archive.")
    if len(name) > NAME_LIMIT or name.count("/") > DEPTH_LIMIT:
        raise _UnsafeMemberError(
            f"{name[:60]!r}... is longer than {NAME_LIMIT} characters, or lies more than {DEPTH_LIMIT} "
            "folders deep."
        )
    if not (member.isreg() or member.isdir()):
        raise _UnsafeMemberError(f"{name!r} is a link or a special file.")
    if member.issparse() or member.size < 0:
        raise _UnsafeMemberError(f"{name!r} is a sparse file, or of a size that no file has.")
    for field, value in member.pax_headers.items():
        if len(field) + len(value) > FIELD_LIMIT:
            raise _UnsafeMemberError(
                f"{name[:60]!r} has a field of more than {FIELD_LIMIT} characters: {field[:40]!r}."
            )


def _extract(member: tarfile.TarInfo, stream: _Stream, path: Path) -> None:
    """Write the next bytes of the stream to a file of this user, with permissions that keep it usable."""
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    left = member.size
    with path.open("xb") as file:  # a file that comes twice is an error
        while left:
            chunk = stream.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise EOFError(f"the archive ends within {member.name!r}")
            file.write(chunk)
            left -= len(chunk)
    path.chmod(0o755 if member.mode & 0o100 else 0o644)
