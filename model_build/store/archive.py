"""Pack folders to reproducible .tar.gz files, and unpack them safely."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from isal import igzip_threaded, isal_zlib

from model_build.errors import ArchiveError
from tritonstack.records.manifests import FileEntry

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# Fixed, because they decide the compressed bytes; the number of cores must not.
_COMPRESSION: dict[str, Any] = {"compresslevel": 1, "threads": 2, "block_size": 1 << 20}
_BLOCK = 102 * tarfile.RECORDSIZE
"""Block size of the tar stream: the most whole records in one gzip block."""
_COPY = 1 << 20
REPACK = (
    "replace the archive with an intact copy that contains only plain files and folders; if a build wrote "
    "it, build again"
)
USUAL_MEMBERS = 10_000
_HEADERS = 4 * tarfile.BLOCKSIZE
"""Overhead of a tar member: two headers and padding."""
# The library's own types are incomplete and in one place wrong.
_open_gzip = cast("Callable[..., IO[bytes]]", igzip_threaded.open)
_GZIP_ERROR = cast("type[Exception]", isal_zlib.error)
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
    with archive.open("wb") as file:
        written = _HashedWriter(file)
        with (
            _open_gzip(written, "wb", **_COMPRESSION) as stream,
            _Blocks(stream) as blocks,
            tarfile.TarFile(fileobj=blocks, mode="w", format=tarfile.PAX_FORMAT, copybufsize=_COPY) as tar,
        ):
            entries = [entry for path in paths if (entry := _add(tar, folder, path))]
    return PackedArchive(archive, written.sha256.hexdigest(), archive.stat().st_size, tuple(entries))


class _HashedWriter(io.RawIOBase):
    """Write to a file and hash the bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sha256 = hashlib.sha256()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        self.sha256.update(data)
        return self._file.write(data)


class _EndedEarlyError(Exception):
    """A file is shorter than when it was opened."""


class _HashedReader(io.RawIOBase):
    """Read from a file and hash the bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sha256 = hashlib.sha256()
        self._file = file

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise _EndedEarlyError
        self.sha256.update(data)
        return data


class _Blocks(io.RawIOBase):
    """Forward a stream in blocks of a fixed size."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._pending = bytearray()
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Buffer) -> int:
        size = memoryview(data).nbytes
        self._pending += data
        self._position += size
        while len(self._pending) >= _BLOCK:
            self._stream.write(memoryview(self._pending)[:_BLOCK].tobytes())
            del self._pending[:_BLOCK]
        return size

    def close(self) -> None:
        if not self.closed:
            self._stream.write(bytes(self._pending))
        super().close()


def most_members(files: Iterable[FileEntry]) -> int:
    """Return the number of members an archive of these files may have, with folders and some empty ones."""
    return USUAL_MEMBERS + sum(1 + entry.path.count("/") for entry in files)


def unpack(archive: Path, folder: Path, *, limit_bytes: int, limit_members: int = USUAL_MEMBERS) -> None:
    """Unpack an untrusted archive: plain files and folders with safe names only, within limits."""
    left, names = limit_bytes, set[str]()
    try:
        with _open_gzip(archive, "rb") as gzip:
            stream = _Limited(gzip, archive, limit_bytes + limit_members * _HEADERS + tarfile.RECORDSIZE)
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for member in tar:
                    left -= member.size
                    names.add(_check_member(archive, member, left, names))
                    if len(names) > limit_members:
                        raise ArchiveError(
                            f"{archive} has more than {limit_members} files and folders", remedy=REPACK
                        )
                    _place(tar, member, folder / member.name)
            # The last file is followed by zeros and gzip's checksum, which is verified on read.
            while data := stream.read(_COPY):
                if data.strip(b"\0"):
                    raise ArchiveError(f"{archive} has data after its last file", remedy=REPACK)
    except (tarfile.TarError, EOFError, OSError, _GZIP_ERROR) as error:
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


def unpack_own(packed: PackedArchive, folder: Path) -> None:
    """Unpack an archive that this module packed."""
    unpack(
        packed.file,
        folder,
        limit_bytes=packed.unpacked_bytes,
        limit_members=most_members(packed.files),
    )


class _Limited(io.RawIOBase):
    """A stream that fails beyond a size limit.

    tarfile reads extended headers whole, so a small file could exhaust memory.
    """

    def __init__(self, stream: IO[bytes], archive: Path, limit: int) -> None:
        self._stream = stream
        self._archive = archive
        self._left = limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError(f"{self._archive} exceeds its unpacked size limit", remedy=REPACK)
        return data


def _check_packable(folder: Path, path: Path, *, any_name: bool) -> None:
    name = path.relative_to(folder).as_posix()
    if not any_name and not is_safe_name(name):
        raise ArchiveError(
            f"{name!r} is not allowed in an artifact",
            remedy="use letters, digits, '.', '_', '-', and '/' only: Triton passes names to a shell",
        )
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        raise ArchiveError(f"{name} is not a file or folder", remedy="replace it with a copy of the file")


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
        with path.open("rb", buffering=0) as file:
            member.size, member.mode = os.fstat(file.fileno()).st_size, 0o644
            reader = _HashedReader(file)
            tar.addfile(member, cast("IO[bytes]", reader))
            changed = bool(file.read(1))
    except (FileNotFoundError, _EndedEarlyError):
        changed = True
    if changed:
        raise ArchiveError(f"{path} changed during packing", remedy="build again when nothing writes there")
    return FileEntry(path=member.name, size_bytes=member.size, sha256=reader.sha256.hexdigest())


def _check_member(archive: Path, member: tarfile.TarInfo, left: int, names: set[str]) -> str:
    """Return a member's name if it is safe to unpack."""
    name = member.name.removeprefix("./").rstrip("/")
    if not is_safe_name(name) and member.name != ".":
        raise ArchiveError(f"{archive}: unsafe name {member.name!r}", remedy=REPACK)
    if not (member.isreg() or member.isdir()):
        raise ArchiveError(f"{archive}: {member.name} is not a file or folder", remedy=REPACK)
    if left < 0:
        raise ArchiveError(f"{archive} exceeds its unpacked size limit", remedy=REPACK)
    if name in names:
        raise ArchiveError(f"{archive}: duplicate entry {name}", remedy=REPACK)
    return name
