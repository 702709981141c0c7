"""Prepare the bucket of a promotion's target, and lock and record what was copied to it.

The order makes a promotion resumable: the lock names only what is in the bucket, events only what is locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tritonstack.base import naming
from tritonstack.operations.deploying.changes import DEPLOY_OPTIONS
from tritonstack.operations.events import record_event
from tritonstack.operations.locks.retention import unmark_superseded
from tritonstack.operations.promotion.plans import as_promoted, lock_after
from tritonstack.operations.promotion.records import promoted_event
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_writing import LockChange, LockChangedError, replace_entries
from tritonstack.records.locks import Lock, Promoted, load_lock
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


def lock_all(target: EnvironmentAccess, items: Sequence[LockChange], promoted: Promoted) -> None:
    """Write entries to the lock of the target, then record their events.

    If another process of this checkout has just promoted the same artifacts, its entries and events stay.
    """
    artifacts = [(item.name, item.entry.digest) for item in items if not item.is_image]
    unmark_superseded(target.cloud, target.bucket, artifacts)
    lock = _write_lock(target.workspace, items, promoted)
    for item in items:
        entry = lock.entry(item.name, item.key, image=item.is_image)
        if entry and entry.promoted:
            event = promoted_event(target.workspace, item, entry.promoted)
            record_event(target.cloud, target.bucket, event)


def _write_lock(target: Workspace, items: Sequence[LockChange], promoted: Promoted) -> Lock:
    """Write the entries, unless another process has just promoted the same; return the lock."""
    try:
        replace_entries(
            target.lock.file, [replace(item, entry=as_promoted(item, promoted)) for item in items]
        )
    except LockChangedError:
        lock = load_lock(target.lock.file).record
        if not all(_is_promoted(lock, item, promoted.source) for item in items):
            raise
        return lock
    return lock_after(target, items, promoted)


def _is_promoted(lock: Lock, item: LockChange, source: str) -> bool:
    """Return whether a lock has an entry as this promotion writes it, whoever promoted it and when."""
    entry = lock.entry(item.name, item.key, image=item.is_image)
    if entry is None or entry.promoted is None or entry.promoted.source != source:
        return False
    return entry == as_promoted(item, entry.promoted)
