"""Open a repository: a folder, or a model.tar.gz in a private temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from model_build.errors import ArchiveError, OversizedArchiveError, ResourceError
from model_build.linting.findings import Finding, in_file
from model_build.resources import free_space
from model_build.store.archive import unpack
from tritonstack.base.error_kinds import DamagedArtifactError, UnknownNameError

LIMIT_BYTES = 100 << 30
"""More than any instance type loads in SageMaker's 60 minutes."""
LARGEST_RATIO = 200
"""Weights compress to a tenth at best; only archives made to fill disks compress further."""
SMALL_BYTES = 1 << 30
"""Unpacked size that any archive may have."""
LIMIT_MEMBERS = 200_000
LISTED_ENTRIES = 20
AGAIN = "if the file was cut off, copy or fetch it again; else "
PACK = (
    "pack plain files and folders: `cp -RL <repository> <copy>` replaces links with copies, then "
    "`tar -C <copy> -czf model.tar.gz .`"
)
"""GNU tar's --dereference writes hard links for equal files, and the tar of macOS has no other option."""


@dataclass(frozen=True)
class OpenedRepository:
    """A repository to read."""

    root: Path
    shown: Path
    """The path for messages."""
    findings: tuple[Finding, ...] = ()
    complete: bool = True
    """False if the archive could not be read to its end."""


@contextmanager
def open_repository(path: Path) -> Iterator[OpenedRepository]:
    """Open a folder or an archive; raise UsageError if there is neither."""
    if path.is_dir():
        yield OpenedRepository(path, path)
        return
    if not path.is_file():
        problem = "not a file or folder" if path.exists() else "file not found"
        raise UnknownNameError(f"{path}: {problem}", remedy="name a Triton repository or a model.tar.gz")
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as name:
        yield _unpacked(path, Path(name))


def _unpacked(archive: Path, folder: Path) -> OpenedRepository:
    findings: list[Finding] = []

    def report(error: ArchiveError) -> None:
        findings.append(_finding(archive, error))
        if len(findings) == LISTED_ENTRIES:
            raise ArchiveError(
                f"{archive}: {LISTED_ENTRIES} entries that are not allowed; the rest is not checked",
                remedy=PACK,
            )

    allowed = min(LIMIT_BYTES, max(SMALL_BYTES, LARGEST_RATIO * archive.stat().st_size))
    free = free_space(folder)
    try:
        unpack(
            archive,
            folder,
            limit_bytes=min(allowed, free),
            limit_members=LIMIT_MEMBERS,
            on_rejected=report,
        )
    except OversizedArchiveError as error:
        if free < allowed:
            raise ResourceError(
                f"{archive} unpacks to more than the {free >> 20} MiB that are free in {folder.parent}",
                remedy="set TMPDIR to a folder on a larger disk",
            ) from error
        findings.append(_finding(archive, error))
        return OpenedRepository(folder, archive, tuple(findings), complete=False)
    except ArchiveError as error:
        findings.append(_finding(archive, error, remedy=AGAIN + PACK if _is_unreadable(error) else PACK))
        return OpenedRepository(folder, archive, tuple(findings), complete=False)
    return OpenedRepository(folder, archive, tuple(findings))


def _is_unreadable(error: ArchiveError) -> bool:
    """Return whether the archive itself cannot be read, so that its end may be missing."""
    return error.__cause__ is not None


def _finding(archive: Path, error: ArchiveError, *, remedy: str = PACK) -> Finding:
    message = error.message.removeprefix(f"{archive}").removeprefix(":").strip()
    return in_file("error", DamagedArtifactError.code, archive, message, remedy)
