"""Download a model archive from S3 and unpack it; the archive is untrusted.

Names are restricted to letters, digits, and `. _ - /`: a Triton backend passes folder names to a shell.
"""

from __future__ import annotations

import copy
import gzip
import io
import os
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.service.errors import ReplyError

MEMBER_LIMIT = 100_000
DEPTH_LIMIT = 100
NAME_LIMIT = 1024
FIELD_LIMIT = 4096
TIME_LIMIT_S = 1 << 40
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
    try:
        with gzip.open(archive) as compressed:
            stream = _Stream(compressed, checkpoint)
            guard = _Guard(stream=stream, space=space or Space())
            with tarfile.TarFile(fileobj=stream) as tar:
                # Debian 12's Python 3.11.2 has no filters; later ones must not apply their own.
                tar.extraction_filter = _as_it_is
                tar.extractall(to, members=map(guard, tar))  # noqa: S202
            stream.read_to_the_end()
            guard.reject_loops()
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
    """The decompressed archive, readable only as far as its members so far allow.

    Headers can claim any length, and tarfile reads them completely.
    """

    def __init__(self, stream: gzip.GzipFile, checkpoint: Checkpoint) -> None:
        self._stream = stream
        self._checkpoint = checkpoint
        self._left = HEADER_LIMIT_BYTES
        self._last = b""

    def expect(self, size: int) -> None:
        """Allow reading this many bytes of content and the next header."""
        self._left = size + HEADER_LIMIT_BYTES

    def read(self, size: int = -1) -> bytes:
        """Read bytes."""
        self._checkpoint()
        if not 0 <= size <= self._left:
            raise _UnsafeMemberError(f"it holds headers that are larger than {HEADER_LIMIT_BYTES >> 20} MiB.")
        content = self._stream.read(size)
        self._left -= len(content)
        self._last = content
        return content

    def read_to_the_end(self) -> None:
        """Read the rest of the stream, to verify its checksum.

        tarfile treats any end of stream, and a damaged header, as the end of the archive.
        """
        if self._last != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("the archive is truncated: it has no end-of-archive block")
        budget = PADDING_LIMIT_BYTES
        while content := self._stream.read(_CHUNK_BYTES):
            self._checkpoint()
            budget -= len(content)
            if budget < 0:
                raise _UnsafeMemberError(f"more than {PADDING_LIMIT_BYTES >> 20} MiB follow its last member.")

    def tell(self) -> int:
        """Return the position in the stream."""
        return self._stream.tell()

    def seek(self, position: int) -> int:
        """Set the position in the stream."""
        return self._stream.seek(position)

    def write(self, content: bytes) -> int:
        """Raise: archives are read-only."""
        raise io.UnsupportedOperation("write")

    def close(self) -> None:
        """Do nothing: the owner closes the stream."""


class _Guard:
    """Checks each member before its extraction, with the rules of Python's `data` filter and stricter ones.

    No member's path may contain a link of the archive, so names equal locations.
    """

    def __init__(self, *, stream: _Stream, space: Space) -> None:
        self._stream = stream
        self._space = space
        self._kinds: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._members = 0

    def __call__(self, member: tarfile.TarInfo) -> tarfile.TarInfo:
        for name in filter(None, (member.name, member.linkname)):
            _check_name(name)
        if ".." in member.name.split("/"):
            raise _UnsafeMemberError(f"{member.name!r} leads out of the archive.")
        if member.issparse() or member.size < 0:
            raise _UnsafeMemberError(f"{member.name!r} is a sparse file, or of a size that no file has.")
        _check_fields(member)
        if not (member.isreg() or member.isdir() or member.islnk() or member.issym()):
            raise _UnsafeMemberError(f"{member.name!r} is a special file.")
        self._check_path(member)
        self._space.take(member.size)
        self._stream.expect(member.size)
        return _owned(member)

    def _check_path(self, member: tarfile.TarInfo) -> None:
        name = posixpath.normpath(member.name)
        self._reject_behind_link(name, of=member)
        if member.islnk() and self._kinds.get(posixpath.normpath(member.linkname)) != tarfile.REGTYPE:
            raise _UnsafeMemberError(f"{member.name!r} is a hard link to what is no file before it.")
        if member.issym():
            _reject_winding(member)
            target = posixpath.join(posixpath.dirname(name), member.linkname)
            if posixpath.normpath(target).split("/")[0] == "..":
                raise _UnsafeMemberError(f"{member.name!r} is a link that leads out of the archive.")
            self._reject_behind_link(target, of=member)
            self._links[name] = posixpath.normpath(target)
        self._note(name, tarfile.REGTYPE if member.isreg() else member.type)

    def _note(self, name: str, kind: bytes) -> None:
        """Reject duplicates, except folders."""
        before = self._kinds.get(name)
        if before is not None and not before == kind == tarfile.DIRTYPE:
            raise _UnsafeMemberError(f"{name!r} comes twice.")
        self._members += 1
        if self._members > MEMBER_LIMIT:
            raise _UnsafeMemberError(f"it holds more than {MEMBER_LIMIT} members.")
        self._kinds[name] = kind

    def reject_loops(self) -> None:
        """Reject symbolic link loops."""
        for name in self._links:
            visited, place = {name}, self._links[name]
            while place in self._links and place not in visited:
                visited.add(place)
                place = self._links[place]
            if place in visited or place == "." or name.startswith(f"{place}/"):
                raise _UnsafeMemberError(f"{name!r} is a symbolic link that leads to itself (a loop).")

    def _reject_behind_link(self, name: str, *, of: tarfile.TarInfo) -> None:
        parts = name.split("/")
        for end in range(1, len(parts)):
            if self._kinds.get(posixpath.normpath("/".join(parts[:end]))) == tarfile.SYMTYPE:
                raise _UnsafeMemberError(f"{of.name!r} leads through a link of the archive's own.")


def _as_it_is(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    del path
    return member


def _owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member as a file or folder of this user, with permissions that keep it usable."""
    member_copy = copy.copy(member)
    member_copy.uid, member_copy.gid, member_copy.uname, member_copy.gname = os.getuid(), os.getgid(), "", ""
    member_copy.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member_copy


def _reject_winding(member: tarfile.TarInfo) -> None:
    """Reject link targets that go down and up again: a folder on the way may become a link later."""
    parts = posixpath.normpath(member.linkname).split("/")
    if ".." in member.linkname.split("/")[parts.count("..") :]:
        raise _UnsafeMemberError(f"{member.name!r} is a link that goes down and up again.")


def _check_fields(member: tarfile.TarInfo) -> None:
    """Reject oversized extended header fields."""
    for field, value in member.pax_headers.items():
        if len(field) + len(value) > FIELD_LIMIT:
            raise _UnsafeMemberError(
                f"{member.name[:60]!r} has a field of more than {FIELD_LIMIT} characters: {field[:40]!r}."
            )
    if not 0 <= member.mtime < TIME_LIMIT_S:
        raise _UnsafeMemberError(f"{member.name[:60]!r} has a time of change that no file has.")


def _check_name(name: str) -> None:
    if _SAFE_NAME.fullmatch(name) is None:
        raise _UnsafeMemberError(f"{name[:60]!r} holds more than letters, digits, '.', '_', '-' and '/'.")
    if name.startswith("/"):
        raise _UnsafeMemberError(f"{name[:60]!r} is an absolute path.")
    if len(name) > NAME_LIMIT:
        raise _UnsafeMemberError(f"{name[:60]!r}... is longer than {NAME_LIMIT} characters.")
    if name.count("/") > DEPTH_LIMIT:
        raise _UnsafeMemberError(f"{name[:60]!r}... lies more than {DEPTH_LIMIT} folders deep.")
