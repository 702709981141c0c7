"""Prepare the bucket of a promotion's target, and lock and record what was copied to it.

The order makes a promotion resumable: the lock names only what is in the bucket, events only what is locked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritonstack.base import naming
from tritonstack.operations.deploying.changes import DEPLOY_OPTIONS
from tritonstack.operations.events import record_event
from tritonstack.operations.locks.retention import unmark_superseded
from tritonstack.operations.promotion.plans import Artifact, Entry, Image, as_promoted, lock_after
from tritonstack.operations.promotion.records import promoted_event
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_writing import LockChangedError, Replacement, replace_entries
from tritonstack.records.locks import Lock, LockedArtifact, LockedEntry, LockedImage, Promoted, load_lock
from tritonstack.workflows.artifacts.copying import EnvironmentAccess, has_bucket
from tritonstack.workflows.deployment.bootstrap import bootstrap_account, lacks_bootstrap
from tritonstack.workflows.deployment.synthesis import cdk_of, synthesized
from tritonstack.workflows.session import Session


def deploy_foundation(session: Session, target: EnvironmentAccess, *, bootstrap: bool) -> None:
    """Deploy the foundation of the target, which holds its bucket, if it is missing."""
    spec = target.workspace.spec
    with session.reporter.step(f"looking for the bucket of {spec.name}"):
        if has_bucket(target):
            return
        unprepared = lacks_bootstrap(target.cloud, spec.bootstrap, allowed=bootstrap)
    stack = naming.foundation_stack_name(spec.base)
    cdk = cdk_of(target.workspace, target.cloud)
    with synthesized(session, target.workspace, cdk, stack) as assembly:
        if unprepared:
            bootstrap_account(session, cdk, spec.bootstrap, assembly)
        with session.reporter.step(f"deploying {stack}, which creates the bucket of {spec.name}") as step:
            cdk.run("deploy", stack, *DEPLOY_OPTIONS, assembly=assembly.folder, on_line=step.update)


def lock_all(target: EnvironmentAccess, items: Sequence[Entry], promoted: Promoted) -> None:
    """Write entries to the lock of the target, then record their events.

    If another process of this checkout has just promoted the same artifacts, its entries and events stay.
    """
    artifacts = [item for item in items if isinstance(item.entry, LockedArtifact)]
    unmark_superseded(target.cloud, target.bucket, [(item.name, item.entry.digest) for item in artifacts])
    lock = _write_lock(target.workspace, items, promoted)
    for item in items:
        if (entry := _find(lock, item)) and entry.promoted:
            event = promoted_event(target.workspace, item, entry.promoted)
            record_event(target.cloud, target.bucket, event)


def _write_lock(target: Workspace, items: Sequence[Entry], promoted: Promoted) -> Lock:
    """Write the entries, unless another process has just promoted the same; return the lock."""
    artifacts: list[Artifact] = []
    images: list[Image] = []
    for item in items:
        entry = as_promoted(item, promoted)
        if isinstance(entry, LockedImage):
            locked_image = item.seen if isinstance(item.seen, LockedImage) else None
            images.append(Replacement(item.name, item.key, entry, locked_image))
        else:
            before = item.seen if isinstance(item.seen, LockedArtifact) else None
            conflicting = target.lock.record.conflicting(item.name, item.key)
            artifacts.append(Replacement(item.name, item.key, entry, before, conflicting))
    try:
        replace_entries(target.lock.file, artifacts=artifacts, images=images)
    except LockChangedError:
        lock = load_lock(target.lock.file).record
        if not all(_is_promoted(lock, item, promoted.source) for item in items):
            raise
        return lock
    return lock_after(target, [(item, promoted) for item in items])


def _find(lock: Lock, item: Entry) -> LockedEntry | None:
    group: Mapping[str, Mapping[Any, LockedEntry]] = lock.models
    if isinstance(item.entry, LockedImage):
        group = lock.images
    return group.get(item.name, {}).get(item.key)


def _is_promoted(lock: Lock, item: Entry, source: str) -> bool:
    """Return whether a lock has an entry as this promotion writes it, whoever promoted it and when."""
    entry = _find(lock, item)
    if entry is None or entry.promoted is None or entry.promoted.source != source:
        return False
    return entry == as_promoted(item, entry.promoted)
