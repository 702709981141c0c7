"""That endpoints were deployed, written down once for as long as nothing about it changes.

Whoever asks how long something has been running reads the first of these events; a deploy that changed
nothing therefore writes none, or it would look like a new beginning to a person who reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tritonstack.operations.aws import Cloud
from tritonstack.operations.events import latest_events, latest_of_each, new_event, record_event
from tritonstack.operations.revisions import Revision
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event


def record_deployment(
    cloud: Cloud, workspace: Workspace, endpoints: Sequence[str], revision: Revision | None = None
) -> Event | None:
    """Write down that endpoints run what this checkout asks for, unless that has been said already.

    `revision`: that of the files when the deploy read them; by default the present one.
    """
    if not endpoints:
        return None
    bucket = workspace.spec.artifact_bucket
    event = new_event("deployed", workspace, endpoints=sorted(endpoints), revision=revision)
    if is_told(event, latest_events(cloud, bucket, "deployed")):
        return None
    record_event(cloud, bucket, event)
    return event


def is_told(event: Event, earlier: Iterable[Event]) -> bool:
    """Whether the latest of `earlier`, which come the latest first, says the same of the same endpoints."""
    latest = latest_of_each(earlier, event.endpoints)
    return len(latest) == len(event.endpoints) and all(
        _said(told) == _said(event) for told in latest.values()
    )


def _said(event: Event) -> tuple[object, ...]:
    return event.endpoints, event.artifacts, event.images, event.commit, event.uncommitted
