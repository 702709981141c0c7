"""Check that each lock entry is exactly what `tritonstack` wrote, at its own position.

A merge or rebase takes whole entries from either side, so their seals stay valid. Entries that were edited,
moved, or copied manually are rejected (tritonstack.project.checks.compatibility).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tritonstack.base.documents import Document, FieldPath
from tritonstack.base.errors import FileViolation, shown_path
from tritonstack.records.locks import Lock, LockedEntry, locked_environment


@dataclass(frozen=True)
class PlacedEntry:
    """A lock entry and its position."""

    document: Document[Lock]
    path: FieldPath
    entry: LockedEntry

    @property
    def environment(self) -> str:
        """The environment of the lock."""
        return locked_environment(self.document.file)

    @property
    def is_sealed(self) -> bool:
        """Whether its seal is valid."""
        _, name, key = self.path
        return self.entry.is_sealed((self.environment, str(name), str(key)))

    def violation(
        self, message: str, *, code: str, at: str | None = None, remedy: str | None = None
    ) -> FileViolation:
        """Describe a problem of the entry or of one of its fields."""
        return self.document.violation(
            (*self.path, at) if at else self.path, message, code=code, remedy=remedy
        )


def entries_of(document: Document[Lock]) -> Iterator[PlacedEntry]:
    """Yield all entries of a lock."""
    for model, targets in document.record.models.items():
        for target, artifact in targets.items():
            yield PlacedEntry(document, ("models", model, target), artifact)
    for folder, kinds in document.record.images.items():
        for kind, image in kinds.items():
            yield PlacedEntry(document, ("images", folder, kind), image)


def check_seals(document: Document[Lock], promotion_source: str | None = None) -> Iterator[FileViolation]:
    """Yield entries with missing or invalid seals."""
    for placed in entries_of(document):
        if violation := broken_seal(placed, promotion_source):
            yield violation


def broken_seal(placed: PlacedEntry, promotion_source: str | None = None) -> FileViolation | None:
    """Describe an invalid seal; None if the seal is valid.

    `promotion_source` is the environment that promotes to the environment of the lock, if any.
    """
    if placed.is_sealed:
        return None
    file = shown_path(placed.document.file)
    remedies = [f"`git log -p -- {file}` shows its history", *_recreate_command(placed, promotion_source)]
    if placed.entry.seal is None:
        message = "no seal: this entry was written manually or by an early version"
        return placed.violation(message, remedy=remedies[-1], code="TS405")
    remedies.insert(0, f"`git checkout -- {file}` discards uncommitted changes")
    return placed.violation(
        "invalid seal: this entry was edited manually or copied from another place",
        at="seal",
        remedy="; ".join(remedies),
        code="TS405",
    )


def _recreate_command(placed: PlacedEntry, promotion_source: str | None) -> Iterator[str]:
    """Yield the command that recreates the entry; there is none for rolled-back entries."""
    entry, environment = placed.entry, placed.environment
    source = entry.promoted.source if entry.promoted else promotion_source
    if entry.rolled_back and not entry.promoted:
        return
    command = f"promote {source} {environment}" if source else f"build {environment}"
    yield f"`tritonstack {command}` rewrites it"
