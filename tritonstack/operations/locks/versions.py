"""Read the versions of an environment's lock from git, latest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.base.revisions import short_commit
from tritonstack.base.yaml import read_text
from tritonstack.operations.checkout import Checkout, Commit
from tritonstack.project.checks.locks import LockDigests
from tritonstack.records.locks import Lock, load_lock, parse_lock


@dataclass(frozen=True)
class LockVersion:
    """A lock version, valid until the next commit that changed it."""

    commit: Commit | None
    """None if not committed."""
    lock: Lock | None
    """None if this program version cannot read it."""

    @property
    def description(self) -> str:
        """Return the version for messages."""
        return (
            f"commit {short_commit(self.commit.id)} of {self.commit.at}"
            if self.commit
            else "uncommitted changes"
        )


@dataclass(frozen=True)
class LockHistory:
    """The history of one environment's lock."""

    checkout: Checkout
    file: Path

    @cached_property
    def versions(self) -> Sequence[LockVersion]:
        """Versions along the checked-out branch, latest first."""
        return tuple(self._versions(every_branch=False))

    @property
    def gap(self) -> str | None:
        """Why the history is incomplete or partly unreadable; None if complete."""
        for version in self.versions:
            if version.lock is None:
                return f"this version cannot read {self.file.name} of {version.description}"
        return self.checkout.gap()

    def known_digests(self) -> LockDigests:
        """Return all digests that the lock has named, merged branches included."""
        versions = list(self._versions(every_branch=True))
        digests = {digest for version in versions if version.lock for digest in digests_of(version.lock)}
        unread = [version for version in versions if version.lock is None]
        gap = f"this version cannot read {unread[0].description}" if unread else self.checkout.gap()
        return LockDigests(frozenset(digests), gap)

    def _versions(self, *, every_branch: bool) -> Iterator[LockVersion]:
        """Yield the uncommitted version, if any, then the committed ones."""
        commits = list(self.checkout.changes_of(self.file, every_branch=every_branch))
        texts = self.checkout.files_at([commit.id for commit in commits], self.file)
        here = _with_newlines(read_text(self.file)) if self.file.exists() else None
        latest = True
        for commit, text in zip(commits, texts, strict=True):
            if latest and text != here and here is not None:
                yield LockVersion(None, load_lock(self.file).record)
            latest = False
            yield LockVersion(commit, self._parsed(text))
        if latest and here is not None:
            yield LockVersion(None, load_lock(self.file).record)

    def _parsed(self, text: str | None) -> Lock | None:
        if text is None:
            return Lock()  # the commit deleted the file
        try:
            return parse_lock(text, self.file).record
        except InvalidFilesError:
            return None


def _with_newlines(text: str) -> str:
    """Return a text with the line endings that git's texts have here."""
    return text.replace("\r\n", "\n")


def lock_history(project: Project, environment: str) -> LockHistory:
    """Return the history of an environment's lock."""
    return LockHistory(Checkout(project.root), project.lock_file(environment))


def digests_of(lock: Lock) -> Iterator[str]:
    """Return all digests in a lock."""
    for artifacts in lock.models.values():
        yield from (artifact.digest for artifact in artifacts.values())
    for images in lock.images.values():
        yield from (image.digest for image in images.values())
