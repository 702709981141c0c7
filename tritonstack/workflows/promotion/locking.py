"""Prepare the bucket of a promotion's target, and lock and record what was copied to it.

The order makes a promotion resumable: the lock names only what is in the bucket, events only what is locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from tritonstack.base import naming
from tritonstack.operations.deploying.changes import DEPLOY_OPTIONS
from tritonstack.operations.events import read_events, record_event
from tritonstack.operations.locks.retention import keep_again
from tritonstack.operations.promotion.claims import CHANGES, Claim, claim
from tritonstack.operations.promotion.plans import Artifact, Entry, Image, as_promoted, lock_after
from tritonstack.operations.promotion.records import promoted_by, promoted_event
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event
from tritonstack.records.lock_writing import LockChangedError, Replacement, replace_entries
from tritonstack.records.locks import LockedArtifact, LockedImage, Promoted, load_lock
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


def lock_all(
    target: EnvironmentAccess, source: str, items: Sequence[Entry], promoted: Promoted, now: datetime
) -> list[Claim]:
    """Write entries to the lock of the target, record events, and return whose promotion each entry is.

    If several processes promote the same entry, one wins and the others adopt its promotion.
    """
    artifacts = [item for item in items if isinstance(item.entry, LockedArtifact)]
    keep_again(target.cloud, target.bucket, [(item.name, item.entry.digest) for item in artifacts])
    history = read_events(target.cloud, target.bucket, kinds=CHANGES)
    claims = [
        claim(
            target.cloud,
            target.bucket,
            promoted_event(target.workspace, item, promoted),
            history=history,
            now=now,
        )
        for item in items
    ]
    promoters = [promoted_by(one.event, source) for one in claims]
    _write_lock(target.workspace, list(zip(items, promoters, strict=True)))
    record_missing(target, [one.event for one in claims], history)
    return claims


def record_missing(target: EnvironmentAccess, events: Sequence[Event], history: Sequence[Event]) -> None:
    """Record the events that are missing."""
    known = {event.key for event in history}
    for event in events:
        if event.key not in known:
            record_event(target.cloud, target.bucket, event)


def _write_lock(target: Workspace, items: Sequence[tuple[Entry, Promoted]]) -> None:
    """Write the entries, unless another process has just written the same ones."""
    artifacts: list[Artifact] = []
    images: list[Image] = []
    for item, promoted in items:
        entry = as_promoted(item, promoted)
        if isinstance(entry, LockedImage):
            seen = item.seen if isinstance(item.seen, LockedImage) else None
            images.append(Replacement(item.name, item.key, entry, seen))
        else:
            before = item.seen if isinstance(item.seen, LockedArtifact) else None
            conflicting = target.lock.record.conflicting(item.name, item.key)
            artifacts.append(Replacement(item.name, item.key, entry, before, conflicting))
    try:
        replace_entries(target.lock.file, artifacts=artifacts, images=images)
    except LockChangedError:
        found = load_lock(target.lock.file)
        if lock_after(replace(target, lock=found), items) != found.record:
            raise
