"""Tells EventBridge how endpoints fare: each change of their state, and each step of an update."""

from __future__ import annotations

from collections.abc import Callable

from tritonstack_local.clients import Clients
from tritonstack_local.cloudwatch.state_changes import (
    DEPLOYMENT_CHANGE,
    ENDPOINT_CHANGE,
    endpoint_detail,
    publish_endpoint_state_change,
)
from tritonstack_local.sagemaker.describing import describe
from tritonstack_local.sagemaker.fleet import Fleet
from tritonstack_local.sagemaker.records import EndpointRecord
from tritonstack_local.tables import Tags

Fleets = tuple[Fleet | None, Fleet | None]
Announce = Callable[[EndpointRecord | None, EndpointRecord, Fleets], None]
"""Hears of an endpoint before a change (None: it is new) and after it, with what serves and what arrives."""


def tell_eventbridge(clients: Clients, tags: Tags) -> Announce:
    """Send SageMaker's events to this cloud's EventBridge."""

    def announce(before: EndpointRecord | None, after: EndpointRecord, fleets: Fleets) -> None:
        kinds = []
        if before is None or before.status != after.status:
            kinds.append(ENDPOINT_CHANGE)
        if after.pending is not None and (before is None or before.stage != after.stage):
            kinds.append(DEPLOYMENT_CHANGE)
        for kind in kinds:
            named = {tag["Key"]: tag["Value"] for tag in tags.of(after.arn)}
            detail = endpoint_detail(describe(after, *fleets), tags=named)
            if kind == ENDPOINT_CHANGE:
                detail.pop("PendingDeploymentSummary", None)
            publish_endpoint_state_change(clients, after.plan.place, detail, kind=kind)

    return announce
