"""Check that each lock entry is exactly what `tritonstack` wrote, in its own place.

A merge or rebase takes whole entries from either side, so their seals stay valid. Entries that were edited,
moved, or copied by hand are refused (tritonstack.project.checks.compatibility).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tritonstack.base.documents import Document, FieldPath
from tritonstack.base.errors import FileProblem, shown_path
from tritonstack.records.locks import Lock, LockedEntry, locked_environment


@dataclass(frozen=True)
class PlacedEntry:
    """An entry of a lock and where it stands."""

    document: Document[Lock]
    path: FieldPath
    entry: LockedEntry

    @property
    def environment(self) -> str:
        """The environment whose lock it is."""
        return locked_environment(self.document.file)

    @property
    def is_sealed(self) -> bool:
        """Whether it was put there as it is."""
        _, name, key = self.path
        return self.entry.is_sealed((self.environment, str(name), str(key)))

    def problem(self, message: str, *, at: str | None = None, remedy: str | None = None) -> FileProblem:
        """Something to say about it, or about one of its fields."""
        return self.document.problem((*self.path, at) if at else self.path, message, remedy=remedy)


def entries_of(document: Document[Lock]) -> Iterator[PlacedEntry]:
    """Every entry of a lock."""
    for model, targets in document.record.models.items():
        for target, artifact in targets.items():
            yield PlacedEntry(document, ("models", model, target), artifact)
    for folder, kinds in document.record.images.items():
        for kind, image in kinds.items():
            yield PlacedEntry(document, ("images", folder, kind), image)


def check_seals(document: Document[Lock]) -> Iterator[FileProblem]:
    """Entries that are not as `tritonstack` wrote them."""
    for placed in entries_of(document):
        if problem := broken_seal(placed):
            yield problem


def broken_seal(placed: PlacedEntry) -> FileProblem | None:
    """What is wrong with the seal of an entry, if anything is."""
    if placed.is_sealed:
        return None
    file = shown_path(placed.document.file)
    remedies = [f"`git log -p -- {file}` shows what it was", *_writes_anew(placed)]
    if placed.entry.seal is None:
        message = "this entry has no seal: it was written by hand, or long ago"
        return placed.problem(message, remedy=remedies[-1])
    remedies.insert(0, f"`git checkout -- {file}` takes back what is not committed")
    return placed.problem(
        "this entry is not as it was sealed: it was edited by hand, or copied from another place",
        at="seal",
        remedy="; ".join(remedies),
    )


def _writes_anew(placed: PlacedEntry) -> Iterator[str]:
    """The command that makes the entry again, if one does: what was gone back to, files no longer make."""
    entry, environment = placed.entry, placed.environment
    if entry.promoted:
        yield f"`tritonstack promote {entry.promoted.source} {environment}` writes it anew"
    elif not entry.rolled_back:
        yield f"`tritonstack build {environment}` writes it anew"
