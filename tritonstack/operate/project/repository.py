"""Create a repository for models and environments, and pin the version of tritonstack in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from tritonstack.base.paths import Project
from tritonstack.files.scaffold import repository
from tritonstack.files.scaffold.repository import TUTORIAL, examples

__all__ = ["TUTORIAL", "CreatedRepository", "PinnedVersion", "create_repository", "examples", "pin_version"]


@dataclass(frozen=True)
class CreatedRepository:
    """A new repository."""

    folder: Path
    files: tuple[str, ...]
    """The new files."""
    kept: tuple[str, ...]
    """Files that existed before, such as a readme. A .gitignore has the missing lines now."""


@dataclass(frozen=True)
class PinnedVersion:
    """The version that a repository uses now."""

    version: str
    previous: str
    """The version that was pinned before."""
    files: tuple[str, ...]
    """The files that changed."""
    removed: tuple[str, ...]
    """Packages that the locks no longer name."""

    @property
    def is_downgrade(self) -> bool:
        """Whether the repository had a newer version."""
        return Version(self.version) < Version(self.previous)


def create_repository(folder: Path, *, example: str | None = None) -> CreatedRepository:
    """Create a repository in a new folder or git clone, with the files of an example if one is named."""
    files, kept = repository.create_repository(folder, example=example)
    return CreatedRepository(folder.resolve(), tuple(files), tuple(kept))


def pin_version(project: Project) -> PinnedVersion:
    """Pin the running version of tritonstack in a repository."""
    pinned = repository.pin_this_version(project)
    return PinnedVersion(
        repository.running_version(), pinned.previous, tuple(pinned.files), tuple(pinned.removed)
    )
