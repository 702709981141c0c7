"""Read the versions of an environment's lock from git, latest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.files import short_digest
from tritonstack.base.paths import Project
from tritonstack.base.results import Internal
from tritonstack.base.revisions import short_commit
from tritonstack.base.yaml import read_text
from tritonstack.files.checks.locks import LockDigests
from tritonstack.files.records.events import Event, EventKind
from tritonstack.files.records.locks import (
    Built,
    Figures,
    Lock,
    LockedArtifact,
    Promoted,
    RolledBack,
    load_lock,
    parse_lock,
)
from tritonstack.operate.shared.checkout import Checkout, Commit


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
        # With the line endings that git's texts have here.
        here = read_text(self.file).replace("\r\n", "\n") if self.file.exists() else None
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


def lock_history(project: Project, environment: str) -> LockHistory:
    """Return the history of an environment's lock."""
    return LockHistory(Checkout(project.root), project.lock_file(environment))


def digests_of(lock: Lock) -> Iterator[str]:
    """Return all digests in a lock."""
    for artifacts in lock.models.values():
        yield from (artifact.digest for artifact in artifacts.values())
    for images in lock.images.values():
        yield from (image.digest for image in images.values())


# Duplicates are merged. Locks show builds and promotions; only events show deployments and verifications.


HistoryEntryKind = Literal[EventKind, "locked", "abandoned"]
"""locked: named by a lock without build information. abandoned: replaced by a rollback."""


@dataclass(frozen=True)
class HistoryEntry:
    """One event in the life of an artifact."""

    digest: Internal[str]
    kind: HistoryEntryKind
    environment: str
    at: str
    by: str
    target: Internal[str] = ""
    commit: str | None = None
    note: str = ""
    figures: Internal[Figures | None] = None
    indirect: Internal[bool] = False
    """Whether it comes from another environment, which knows only its direct source."""


@dataclass
class ArtifactHistory:
    """One artifact and its events in order."""

    digest: str
    target: str = ""
    figures: Figures | None = None
    entries: list[HistoryEntry] = field(default_factory=list)


def history_from_locks(
    environment: str, model: str, versions: Sequence[LockVersion]
) -> Iterator[HistoryEntry]:
    """Yield the events from an environment's lock versions, latest version first."""
    for version in reversed(versions):
        for target, entry in (version.lock or Lock()).models.get(model, {}).items():
            yield from _provenance(environment, target, entry)
            if entry.built is None and entry.promoted is None and version.commit is not None:
                commit = version.commit
                yield HistoryEntry(
                    entry.digest,
                    "locked",
                    environment,
                    commit.at,
                    commit.by,
                    target,
                    commit.id,
                    commit.subject,
                )


def history_from_events(model: str, events: Iterable[Event]) -> Iterator[HistoryEntry]:
    """Yield the events of a model from an environment's events."""
    for event in events:
        for artifact in event.artifacts:
            if artifact.model == model:
                yield HistoryEntry(
                    artifact.digest,
                    event.kind,
                    event.environment,
                    event.at,
                    event.by,
                    artifact.target,
                    event.commit,
                    event.note,
                )


def history_of(entries: Iterable[HistoryEntry]) -> list[ArtifactHistory]:
    """Merge duplicates; sort artifacts by their first event."""
    by_digest: dict[str, dict[tuple[str, ...], HistoryEntry]] = defaultdict(dict)
    for entry in entries:
        alike = by_digest[entry.digest]
        environment = "" if entry.kind == "built" else entry.environment
        moment = "" if entry.kind == "locked" else entry.at
        mark = (entry.kind, environment, moment)
        earlier = alike.setdefault(mark, entry)
        if earlier.indirect and not entry.indirect:
            alike[mark] = replace(entry, figures=entry.figures or earlier.figures)
    histories = [_artifact(digest, list(alike.values())) for digest, alike in by_digest.items()]
    return sorted(histories, key=lambda history: (history.entries[0].at, history.digest))


def _artifact(digest: str, entries: list[HistoryEntry]) -> ArtifactHistory:
    target = next((entry.target for entry in entries if entry.target), "")
    figures = next((entry.figures for entry in entries if entry.figures), None)
    ordered = sorted(entries, key=lambda entry: entry.at)
    return ArtifactHistory(digest, target, figures, ordered)


def _provenance(environment: str, target: str, entry: LockedArtifact) -> Iterator[HistoryEntry]:
    built, promoted, back = entry.built, entry.promoted, entry.rolled_back

    def happened(
        kind: HistoryEntryKind, record: Built | Promoted | RolledBack, note: str = ""
    ) -> HistoryEntry:
        by, commit = record.by, record.commit
        return HistoryEntry(entry.digest, kind, environment, record.at, by, target, commit, note)

    if built is not None:
        where = promoted.source if promoted else environment
        first = happened("built", built)
        yield replace(first, environment=where, figures=entry.figures, indirect=promoted is not None)
    if promoted is not None:
        yield happened(
            "promoted", promoted, "; ".join(filter(None, (f"from {promoted.source}", promoted.note)))
        )
    if back is not None:
        yield happened("rolled-back", back, f"instead of {short_digest(back.instead_of)}")
        replaced = happened("abandoned", back, f"for {short_digest(entry.digest)}")
        yield replace(replaced, digest=back.instead_of)
