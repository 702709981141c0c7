"""Build the history of a model's artifacts from locks in git and events in buckets.

Duplicates are merged. Locks show builds and promotions; only events show deployments and verifications.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tritonstack.base.files import short_digest
from tritonstack.base.results import Internal
from tritonstack.operations.locks.versions import LockVersion
from tritonstack.records.events import Event, EventKind
from tritonstack.records.locks import Built, Figures, Lock, LockedArtifact, Promoted, RolledBack

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
