"""The history of artifacts, from locks and events."""

from typing import Any

from tests.manifests import manifest, measured
from tritonstack.files.records.events import Event, TouchedArtifact
from tritonstack.files.records.locks import Built, Lock, LockedArtifact, Promoted, RolledBack, entry_of
from tritonstack.operate.locks.versions import (
    HistoryEntry,
    LockVersion,
    history_from_events,
    history_from_locks,
    history_of,
)
from tritonstack.operate.shared.checkout import Commit

BUILT = Built(by="ann", at="2026-11-20T08:00:00Z", commit="12" * 20)
PROMOTED = Promoted(source="dev", by="bob", at="2026-11-21T08:00:00Z", note="overridden")
BACK = RolledBack(instead_of="22" * 32, as_of="x", by="cy", at="2026-11-23T08:00:00Z")
INSTEAD = "instead of 222222222222"


def entry(number: str, **changes: Any) -> LockedArtifact:
    return entry_of(manifest("m", digest=number * 32, **measured())).model_copy(update=changes)


def version(locked_entry: LockedArtifact, day: int = 22) -> LockVersion:
    commit = Commit("ab" * 20, f"2026-11-{day}T10:00:00Z", "git", "a change")
    return LockVersion(commit, Lock().with_entry("m", "cpu", locked_entry))


def event(kind: Any, number: str, at: str, **changes: Any) -> Event:
    artifact = TouchedArtifact(model="m", target="cpu", digest=number * 32)
    other = artifact.model_copy(update={"model": "other"})
    facts = {"environment": "dev", "by": "ann", **changes}
    return Event(kind=kind, at=at, artifacts=(other, artifact), **facts)


def lines(entries: list[HistoryEntry]) -> list[str]:
    return [
        f"{artifact.digest[:2]} {happening.kind} {happening.environment} {happening.by} "
        f"{happening.note}".rstrip()
        for artifact in history_of(entries)
        for happening in artifact.entries
    ]


def test_a_build_recorded_in_several_locks_counts_once():
    dev = history_from_locks("dev", "m", [version(entry("11", built=BUILT))] * 2)
    prod = history_from_locks("prod", "m", [version(entry("11", built=BUILT, promoted=PROMOTED))])
    events = history_from_events("m", [event("built", "11", BUILT.at)])
    assert lines([*prod, *dev, *events]) == ["11 built dev ann", "11 promoted prod bob from dev; overridden"]


def test_an_artifact_promoted_twice_was_built_in_the_first_source():
    on = PROMOTED.model_copy(update={"source": "stage", "at": "2026-11-22T08:00:00Z"})
    prod = history_from_locks("prod", "m", [version(entry("11", built=BUILT, promoted=on))])
    stage = history_from_locks("stage", "m", [version(entry("11", built=BUILT, promoted=PROMOTED))])
    dev = history_from_locks("dev", "m", [version(entry("11", built=BUILT))])
    assert lines([*prod, *stage, *dev])[0] == "11 built dev ann"


def test_events_and_locks_are_merged_in_order_of_time():
    events = [
        event("refuted", "22", "2026-11-22T12:00:00Z", note="answers"),
        event("deployed", "22", "2026-11-22T11:00:00Z"),
        event("deployed", "11", "2026-11-20T09:00:00Z"),
        event("rolled-back", "11", BACK.at, by="cy", note="told by the event"),
    ]
    later = Built(by="ann", at="2026-11-22T08:00:00Z")
    locks = [
        version(entry("11", built=BUILT, rolled_back=BACK)),
        version(entry("22", built=later)),
        version(entry("11", built=BUILT)),
    ]
    assert lines([*history_from_locks("dev", "m", locks), *history_from_events("m", events)]) == [
        "11 built dev ann",
        "11 deployed dev ann",
        f"11 rolled-back dev cy {INSTEAD}",
        "22 built dev ann",
        "22 deployed dev ann",
        "22 refuted dev ann answers",
        "22 abandoned dev cy for 1" + "1" * 11,
    ]


def test_entries_without_provenance_have_dates():
    entries = history_from_locks("dev", "m", [version(entry("11"), 24), version(entry("11"), 21)])
    (artifact,) = history_of(entries)
    assert [(item.kind, item.at, item.note) for item in artifact.entries] == [
        ("locked", "2026-11-21T10:00:00Z", "a change")
    ]
