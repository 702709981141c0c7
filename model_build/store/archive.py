"""Pack folders to reproducible .tar.gz files, and unpack them safely.

Archives are compressed in blocks of one size, several at a time. The bytes do not depend on the number of
threads: each block is compressed with the end of the one before as its dictionary.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import re
import shutil
import tarfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

from isal import igzip_threaded, isal_zlib

from model_build.errors import ArchiveError, OversizedArchiveError
from tritonstack.files.records.manifests import FileEntry

LEVEL = 1
BLOCK = 102 * tarfile.RECORDSIZE
"""Bytes per compressed block: the most whole records of tar in 1 MiB. With LEVEL, it decides the bytes."""
_THREADS = 4
"""Most threads that compress. The disk limits how many are useful."""
_COPY = 1 << 20
REPACK = (
    "replace the archive with an intact copy that contains only plain files and folders; if a build wrote "
    "it, build again"
)
USUAL_MEMBERS = 10_000
_HEADERS = 4 * tarfile.BLOCKSIZE
"""Overhead of a tar member: two headers and padding."""
_LONGEST_HEADER = 1 << 20
"""An extended header holds a long name or a few attributes."""
_CONTENT_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE)
_GZIP_ERROR = cast("type[Exception]", isal_zlib.error)
# The library's own types are incomplete and in one place wrong.
open_gzip = cast("Callable[..., IO[bytes]]", igzip_threaded.open)
LONGEST_NAME = 1024
"""Linux limits paths to four times that; the unpack folder has a path too."""
_SAFE_NAME = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True)
class PackedArchive:
    """A packed folder and its entries."""

    file: Path
    digest: str
    size_bytes: int
    files: tuple[FileEntry, ...]

    @property
    def unpacked_bytes(self) -> int:
        """Unpacked size on disk."""
        return sum(entry.size_bytes for entry in self.files)


def is_safe_name(name: str) -> bool:
    """Return whether a name is safe in an archive: Triton passes folder names to a shell."""
    return (
        len(name) <= LONGEST_NAME
        and bool(_SAFE_NAME.fullmatch(name))
        and not {".", ".."} & set(name.split("/"))
    )


def pack(
    folder: Path, archive: Path, *, any_name: bool = False, links: Collection[str] = ()
) -> PackedArchive:
    """Pack a folder; equal names and contents give equal bytes.

    `any_name` is for archives that Triton itself unpacks, whose names reach no shell; `links` names the
    symbolic links to pack, all others are rejected. Every file is read once; contents and archive are hashed
    while streaming.
    """
    paths = sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix())
    for path in paths:
        if path.relative_to(folder).as_posix() not in links:
            _check_packable(folder, path, any_name=any_name)
    with (
        archive.open("wb") as file,
        GzipStream(file) as stream,
        tarfile.TarFile(
            fileobj=cast("Any", stream), mode="w", format=tarfile.PAX_FORMAT, copybufsize=BLOCK
        ) as tar,
    ):
        entries = [entry for path in paths if (entry := _add(tar, folder, path))]
    return PackedArchive(archive, stream.digest, archive.stat().st_size, tuple(entries))


def most_members(files: Iterable[FileEntry]) -> int:
    """Return the number of members an archive of these files may have, with folders and some empty ones."""
    return USUAL_MEMBERS + sum(1 + entry.path.count("/") for entry in files)


def unpack(
    archive: Path,
    folder: Path,
    *,
    limit_bytes: int,
    limit_members: int = USUAL_MEMBERS,
    on_rejected: Callable[[ArchiveError], None] | None = None,
) -> None:
    """Unpack an untrusted archive: plain files and folders with safe names only, within limits.

    With `on_rejected`, entries that are not allowed are reported and skipped; otherwise the first one raises.
    """
    room, names = limit_bytes, set[str]()
    try:
        with open_gzip(archive, "rb") as gzip:
            stream = _Limited(gzip, archive, limit_bytes + limit_members * _HEADERS + tarfile.RECORDSIZE)
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=CheckedMember) as tar:
                for member in tar:
                    room -= member.size
                    _check_limit(archive, room)
                    try:
                        names.add(_check_member(archive, member, names))
                    except ArchiveError as error:
                        if on_rejected is None:
                            raise
                        on_rejected(error)
                        continue
                    if len(names) > limit_members:
                        raise ArchiveError(
                            f"{archive} has more than {limit_members} files and folders", remedy=REPACK
                        )
                    _place(tar, member, folder / member.name)
            # The last file is followed by zeros and gzip's checksum, which is verified on read.
            while data := stream.read(_COPY):
                if data.strip(b"\0"):
                    raise ArchiveError(f"{archive} has data after its last file", remedy=REPACK)
    except (tarfile.TarError, EOFError, OSError, RecursionError, _GZIP_ERROR) as error:
        raise ArchiveError(f"{archive} cannot be unpacked: {error}", remedy=REPACK) from error


def _place(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write a member whose name and kind were checked.

    tarfile's data filter needs Python 3.11.4, and Ubuntu 22.04 (older Triton images) has an earlier one. This
    also drops owners and permission bits.
    """
    content = tar.extractfile(member)
    if content is None:
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        shutil.copyfileobj(content, file, _COPY)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


def read_members(archive: Path, entries: Iterable[FileEntry]) -> dict[str, bytes]:
    """Return the contents of some small files, by path, and compare them with their checksums."""
    by_path, contents = {entry.path: entry for entry in entries}, dict[str, bytes]()
    try:
        with open_gzip(archive, "rb") as gzip, tarfile.open(fileobj=gzip, mode="r|") as tar:
            while len(contents) < len(by_path) and (member := tar.next()) is not None:
                entry = by_path.get(member.name)
                content = tar.extractfile(member) if entry and member.size == entry.size_bytes else None
                if content is not None:
                    contents[member.name] = content.read()
    except (tarfile.TarError, EOFError, OSError, _GZIP_ERROR) as error:
        raise ArchiveError(f"{archive} cannot be read: {error}", remedy=REPACK) from error
    for path, entry in by_path.items():
        if path not in contents or hashlib.sha256(contents[path]).hexdigest() != entry.sha256:
            raise ArchiveError(f"{archive}: {path} is missing or differs from the manifest", remedy=REPACK)
    return contents


def unpack_own(packed: PackedArchive, folder: Path) -> None:
    """Unpack an archive that this module packed."""
    unpack(
        packed.file,
        folder,
        limit_bytes=packed.unpacked_bytes,
        limit_members=most_members(packed.files),
    )


class CheckedMember(tarfile.TarInfo):
    """An entry of an untrusted archive: tarfile reads extended headers whole, which could exhaust memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> CheckedMember:
        """Read a header; raise ReadError for an extended header that is too long."""
        member = super().frombuf(buf, encoding, errors)
        if member.type not in _CONTENT_TYPES and member.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"extended header of {member.size} bytes")
        return member


class _Limited(io.RawIOBase):
    """A stream that fails beyond a size limit."""

    def __init__(self, stream: IO[bytes], archive: Path, limit: int) -> None:
        self._stream = stream
        self._archive = archive
        self._left = limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        _check_limit(self._archive, self._left)
        return data


class _HashedFile(io.RawIOBase):
    """Passes the compressed bytes on."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:  # type: ignore[override] # the library writes bytes only
        self.sha256.update(data)
        return self._file.write(data)


class GzipStream:
    """A gzip stream into a file. Its digest is valid at the end of the block."""

    def __init__(self, file: IO[bytes], *, threads: int | None = None) -> None:
        count = threads or min(_THREADS, len(os.sched_getaffinity(0)))
        self._position = 0
        self._compressed = _HashedFile(file)
        self._stream = open_gzip(self._compressed, "wb", LEVEL, threads=count, block_size=BLOCK)

    @property
    def digest(self) -> str:
        """The SHA-256 of the compressed bytes."""
        return self._compressed.sha256.hexdigest()

    def tell(self) -> int:
        """Return the number of bytes written, before compression."""
        return self._position

    def write(self, data: bytes) -> int:
        """Write bytes; the blocks are full whatever the sizes of the writes."""
        rest = memoryview(data)
        while rest:
            # The library compresses what it has at a write that does not fit into its block.
            room = BLOCK - self._position % BLOCK
            self._position += self._stream.write(rest[:room])
            rest = rest[room:]
        return len(data)

    def __enter__(self) -> GzipStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()


class _ChangedError(Exception):
    """A file has another size than when it was opened."""


class _HashedContent:
    """Reads a file, and hashes what is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise _ChangedError
        self.sha256.update(data)
        return data


def _check_packable(folder: Path, path: Path, *, any_name: bool) -> None:
    name = path.relative_to(folder).as_posix()
    if not any_name and not is_safe_name(name):
        raise ArchiveError(
            f"{name!r} is not allowed in an artifact",
            remedy="use letters, digits, '.', '_', '-', and '/' only: Triton passes names to a shell",
        )
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        kind = "a link" if path.is_symlink() else "not a file or folder"
        raise ArchiveError(f"{name} is {kind}", remedy="replace it with a copy of the file")


def _add(tar: tarfile.TarFile, folder: Path, path: Path) -> FileEntry | None:
    """Add one file or folder; return the entry of a file."""
    member = tarfile.TarInfo(path.relative_to(folder).as_posix())
    if path.is_symlink():
        member.type, member.mode, member.linkname = tarfile.SYMTYPE, 0o777, str(path.readlink())
        tar.addfile(member)
        return None
    if path.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
        return None
    try:
        with path.open("rb") as file:
            member.size, member.mode = os.fstat(file.fileno()).st_size, 0o644
            content = _HashedContent(file)
            tar.addfile(member, cast("Any", content))
            if file.read(1):
                raise _ChangedError
    except (FileNotFoundError, _ChangedError) as error:
        raise ArchiveError(
            f"{path} changed during packing", remedy="build again when nothing writes there"
        ) from error
    return FileEntry(path=member.name, size_bytes=member.size, sha256=content.sha256.hexdigest())


def _described_link(name: str, member: tarfile.TarInfo) -> str:
    """Describe a link. The target of a hard link is a name in the archive."""
    target = member.linkname.removeprefix("./")
    if member.islnk():
        return f"a hard link to {target}" + ("" if is_safe_name(target) else ", outside the archive")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return f"a link to {target}" + (", outside the archive" if place.startswith(("/", "..")) else "")


def _check_limit(archive: Path, room: int) -> None:
    if room < 0:
        raise OversizedArchiveError(f"{archive} exceeds its unpacked size limit", remedy=REPACK)


def _check_member(archive: Path, member: tarfile.TarInfo, names: set[str]) -> str:
    """Return a member's name if it is safe to unpack."""
    name = member.name.removeprefix("./").rstrip("/")
    if not is_safe_name(name) and member.name != ".":
        raise ArchiveError(f"{archive}: unsafe name {member.name!r}", remedy=REPACK)
    if member.issym() or member.islnk():
        raise ArchiveError(f"{archive}: {name} is {_described_link(name, member)}", remedy=REPACK)
    if not (member.isreg() or member.isdir()):
        raise ArchiveError(f"{archive}: {name} is not a file or folder", remedy=REPACK)
    if name in names:
        raise ArchiveError(f"{archive}: duplicate entry {name}", remedy=REPACK)
    return name
