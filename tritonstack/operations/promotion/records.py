"""Records of a promotion: `promoted` in the lock's entry, and the corresponding event.

The event is derived from the lock's entry alone. So a run after a killed promotion writes the same event
under the same key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tritonstack.operations.events import lock_event
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event, EventKind
from tritonstack.records.lock_writing import LockChange
from tritonstack.records.locks import Promoted

CHANGES: tuple[EventKind, ...] = ("built", "promoted", "rolled-back")
"""Events that change a lock."""


def promoted_event(target: Workspace, item: LockChange, promoted: Promoted) -> Event:
    """Return the event of one entry's promotion."""
    return lock_event(
        "promoted",
        target,
        promoted,
        endpoints=_endpoints(target, item),
        entries=[(item.name, item.key, item.entry)],
        note="; ".join(filter(None, (f"from {promoted.source}", promoted.note))),
    )


def unrecorded(target: Workspace, items: Iterable[LockChange], history: Sequence[Event]) -> Iterator[Event]:
    """Yield the events of promotions that the lock has but the bucket does not."""
    for item in items:
        promoted = item.seen.promoted if item.seen else None
        if promoted is None:
            continue
        event = promoted_event(target, item, promoted)
        if not any(_records_promotion(past, event) for past in history) and not _is_outdated(history, event):
            yield event


def _records_promotion(past: Event, event: Event) -> bool:
    """Return whether an event records that promotion; its endpoints may have differed then."""
    same = past.artifacts == event.artifacts and past.images == event.images
    return past.kind == "promoted" and past.at == event.at and same


def _is_outdated(history: Sequence[Event], event: Event) -> bool:
    """Return whether the entry has changed since; then the lock is outdated."""
    entries = _entries(event)
    return any(past.kind in CHANGES and past.at > event.at and entries & _entries(past) for past in history)


def _entries(event: Event) -> set[tuple[str, str]]:
    """Return the positions of an event's lock entries."""
    images = {(f"images-{image.folder}", image.kind) for image in event.images}
    return {(artifact.model, artifact.target) for artifact in event.artifacts} | images


def _endpoints(target: Workspace, item: LockChange) -> Iterator[str]:
    for name, endpoint in sorted(target.spec.endpoints.items()):
        if name in endpoints_running(target, item) if item.is_image else item.name in endpoint.models:
            yield name


def endpoints_running(workspace: Workspace, image: LockChange) -> frozenset[str]:
    """Return the endpoints that run a custom image."""
    return frozenset(
        name
        for name, endpoint in workspace.spec.endpoints.items()
        for variant in endpoint.variants
        if endpoint.image == image.name and ("gpu" if variant.instance.gpus else "cpu") == image.key
    )
