"""Send the EventBridge events of endpoint and deployment state changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.identity.scope import Scope
from tritonstack_local.sagemaker.control_plane.endpoint_description import describe
from tritonstack_local.sagemaker.control_plane.records import EndpointRecord
from tritonstack_local.sagemaker.hosting.fleet import Fleet
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.tables import Tags

ENDPOINT_CHANGE = "SageMaker Endpoint State Change"
DEPLOYMENT_CHANGE = "SageMaker Endpoint Deployment State Change"

log = logging.getLogger(__name__)


def publish_endpoint_state_change(
    clients: Clients, scope: Scope, detail: Mapping[str, Any], *, kind: str = ENDPOINT_CHANGE
) -> None:
    """Send one event; `detail` is as in SageMaker's events, with times in milliseconds since 1970.

    Errors are logged only: SageMaker does not wait for delivery either.
    """
    entry = {
        "Source": "aws.sagemaker",
        "DetailType": kind,
        "Detail": json.dumps(detail, default=_milliseconds),
        "Resources": [detail["EndpointArn"]],
    }
    try:
        clients.client("events", scope).put_events(Entries=[entry])
    except (ClientError, BotoCoreError) as fault:
        log.warning(
            "cannot send the state change of endpoint %s to EventBridge: %s", detail["EndpointName"], fault
        )


def endpoint_detail(described: Mapping[str, Any], *, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return an event's detail, from DescribeEndpoint."""
    detail = {name: described[name] for name in _TOLD if described.get(name) is not None}
    detail["EndpointStatus"] = event_status(described["EndpointStatus"])
    for name in ("CreationTime", "LastModifiedTime"):
        detail[name] = _milliseconds(described[name])
    return detail | {"Tags": dict(tags)}


_TOLD = (
    "EndpointName",
    "EndpointArn",
    "EndpointConfigName",
    "ProductionVariants",
    "FailureReason",
    "PendingDeploymentSummary",
)


def _milliseconds(at: datetime | float) -> int:
    return round((at.timestamp() if isinstance(at, datetime) else at) * 1000)


def event_status(status: str) -> str:
    """Return a status in the events' format: IN_SERVICE for InService."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in status).lstrip("_")


Fleets = tuple[Fleet | None, Fleet | None]
Announce = Callable[[EndpointRecord | None, EndpointRecord, Fleets], None]
"""Receives an endpoint before (None if new) and after a change, with its fleets."""


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
            publish_endpoint_state_change(clients, after.plan.scope, detail, kind=kind)

    return announce
