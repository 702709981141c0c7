"""Record deployments of endpoints, once per change.

The soak time counts from the first such event, so a deployment without changes writes none.
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
    """Record that endpoints run this checkout, unless the last event says so.

    `revision` is the revision that the deployment read; default: the current one.
    """
    if not endpoints:
        return None
    bucket = workspace.spec.artifact_bucket
    event = new_event("deployed", workspace, endpoints=sorted(endpoints), revision=revision)
    if is_already_recorded(event, latest_events(cloud, bucket, "deployed")):
        return None
    record_event(cloud, bucket, event)
    return event


def is_already_recorded(event: Event, events: Iterable[Event]) -> bool:
    """Return whether the latest event in `earlier` (latest first) equals the new one."""
    latest = latest_of_each(events, event.endpoints)
    recorded = {id(last): last for last in latest.values()}  # one event has many endpoints
    return len(latest) == len(event.endpoints) and all(
        _identity(last) == _identity(event) for last in recorded.values()
    )


def _identity(event: Event) -> tuple[object, ...]:
    return event.endpoints, event.artifacts, event.images, event.commit, event.uncommitted
