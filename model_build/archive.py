"""Folders to .tar.gz files whose bytes depend on nothing but names and contents, and back again."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from isal import igzip_threaded, isal_zlib

from catalog.manifests import FileEntry
from model_build.errors import ArchiveError

# Fixed, because the compressed bytes depend on them; the machine's number of cores must not.
_COMPRESSION: dict[str, Any] = {"compresslevel": 1, "threads": 2, "block_size": 1 << 20}
# The library's own types are incomplete and in one place wrong.
_open_gzip = cast("Callable[..., IO[bytes]]", igzip_threaded.open)
_GZIP_FAULT = cast("type[Exception]", isal_zlib.error)
_SAFE_NAME = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True)
class PackedArchive:
    """A packed folder and what it holds."""

    file: Path
    digest: str
    size_bytes: int
    files: tuple[FileEntry, ...]

    @property
    def unpacked_bytes(self) -> int:
        """What its files take on a disk."""
        return sum(entry.size_bytes for entry in self.files)


def is_safe_name(name: str) -> bool:
    """Whether a name may stand in an archive: Triton hands folder names to a shell, so most must not."""
    return bool(_SAFE_NAME.fullmatch(name)) and not {".", ".."} & set(name.split("/"))


def sha256_of(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def pack(folder: Path, archive: Path) -> PackedArchive:
    """Pack a folder; the same names and contents give the same bytes anywhere."""
    paths = sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix())
    for path in paths:
        _check_packable(folder, path)
    with (
        _open_gzip(archive, "wb", **_COMPRESSION) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in paths:
            _add(tar, folder, path)
    entries = tuple(_entry(folder, path) for path in paths if path.is_file())
    return PackedArchive(archive, sha256_of(archive), archive.stat().st_size, entries)


def unpack(archive: Path, folder: Path, *, limit_bytes: int) -> None:
    """Unpack an archive that may come from anywhere: plain files and folders with safe names only."""
    left = limit_bytes
    try:
        with _open_gzip(archive, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                left -= member.size
                _check_member(archive, member, left)
                tar.extract(member, folder, filter="data")
    except (tarfile.TarError, EOFError, OSError, _GZIP_FAULT) as error:
        raise ArchiveError(f"{archive} cannot be unpacked: {error}") from error


def _check_packable(folder: Path, path: Path) -> None:
    name = path.relative_to(folder).as_posix()
    if not is_safe_name(name):
        raise ArchiveError(
            f"{name!r} cannot stand in an artifact",
            remedy="use letters, digits, '.', '_', '-' and '/' only: Triton hands such names to a shell",
        )
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        raise ArchiveError(f"{name} is neither a file nor a folder", remedy="put a copy of the file there")


def _add(tar: tarfile.TarFile, folder: Path, path: Path) -> None:
    member = tarfile.TarInfo(path.relative_to(folder).as_posix())
    if path.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
        return
    member.size, member.mode = path.stat().st_size, 0o644
    with path.open("rb") as stream:
        tar.addfile(member, stream)


def _entry(folder: Path, path: Path) -> FileEntry:
    return FileEntry(
        path=path.relative_to(folder).as_posix(), size_bytes=path.stat().st_size, sha256=sha256_of(path)
    )


def _check_member(archive: Path, member: tarfile.TarInfo, left: int) -> None:
    if not is_safe_name(member.name.removeprefix("./").rstrip("/")) and member.name != ".":
        raise ArchiveError(f"{archive} holds the name {member.name!r}, which is not safe to unpack")
    if not (member.isreg() or member.isdir()):
        raise ArchiveError(f"{archive}: {member.name} is neither a file nor a folder")
    if left < 0:
        raise ArchiveError(f"{archive} unpacks to more bytes than it should")
