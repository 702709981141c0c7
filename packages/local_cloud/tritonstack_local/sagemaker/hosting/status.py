"""Describe endpoints: DescribeEndpoint responses, and EventBridge events of state changes."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.sagemaker.hosting.fleet import Fleet
from tritonstack_local.sagemaker.records import EndpointRecord, PendingUpdate, UpdateStage, VariantRecord
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.tables import Tags

Fields = Mapping[str, Any]
Fleets = tuple[Fleet | None, Fleet | None]
"""The fleet that serves, and the one that an update starts."""
Announce = Callable[[EndpointRecord | None, EndpointRecord, Fleets], None]
"""Receives an endpoint before (None if new) and after a change, with its fleets."""

ENDPOINT_CHANGE = "SageMaker Endpoint State Change"
DEPLOYMENT_CHANGE = "SageMaker Endpoint Deployment State Change"
_SERVING = ("InService", "Updating", "RollingBack", "SystemUpdating", "Deleting")
_EVENT_FIELDS = (
    "EndpointName",
    "EndpointArn",
    "EndpointConfigName",
    "ProductionVariants",
    "FailureReason",
    "PendingDeploymentSummary",
)

log = logging.getLogger(__name__)


def describe(record: EndpointRecord, serving: Fleet | None, arriving: Fleet | None) -> Fields:
    """Return the response of DescribeEndpoint."""
    response: dict[str, Any] = {
        "EndpointName": record.name,
        "EndpointArn": record.arn,
        "EndpointConfigName": record.plan.config_name,
        "EndpointStatus": record.status,
        "FailureReason": record.failure_reason,
        "CreationTime": record.created,
        "LastModifiedTime": record.modified,
        "LastDeploymentConfig": record.deployment_config,
        "DataCaptureConfig": _capture_summary(record.plan.data_capture),
    }
    if record.status in _SERVING:
        stage = record.stage if record.pending is None else None
        response["ProductionVariants"] = [_summary(variant, serving, stage) for variant in record.variants]
    if record.pending is not None:
        response["PendingDeploymentSummary"] = _pending_summary(record.pending, arriving, record.stage)
    return response


def _pending_summary(pending: PendingUpdate, arriving: Fleet | None, stage: UpdateStage | None) -> Fields:
    variants = [
        {**_summary(variant, arriving, stage), "InstanceType": variant.plan.instance_type}
        for variant in pending.variants
    ]
    return {
        "EndpointConfigName": pending.plan.config_name,
        "ProductionVariants": variants,
        "StartTime": pending.started,
    }


def _summary(variant: VariantRecord, fleet: Fleet | None, stage: UpdateStage | None) -> Fields:
    pool = None if fleet is None else fleet.pools.get(variant.name)
    summary = {
        "VariantName": variant.name,
        "DeployedImages": [{"SpecifiedImage": variant.plan.image}],
        "CurrentWeight": variant.weight,
        "DesiredWeight": variant.weight,
        "CurrentInstanceCount": 0 if pool is None else len(pool.instances),
        "DesiredInstanceCount": variant.instance_count,
    }
    if stage is not None and variant.name in stage.messages:
        status = {
            "Status": stage.status,
            "StatusMessage": stage.messages[variant.name],
            "StartTime": stage.started,
        }
        summary["VariantStatus"] = [status]
    return summary


def _capture_summary(settings: Mapping[str, Any] | None) -> Fields | None:
    if settings is None:
        return None
    enabled = settings.get("EnableCapture", True)
    return {
        "EnableCapture": enabled,
        "CaptureStatus": "Started" if enabled else "Stopped",
        "CurrentSamplingPercentage": settings["InitialSamplingPercentage"],
        "DestinationS3Uri": settings["DestinationS3Uri"],
        "KmsKeyId": settings.get("KmsKeyId", ""),
    }


def send_event(
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
    except (ClientError, BotoCoreError) as error:
        log.warning(
            "cannot send the state change of endpoint %s to EventBridge: %s", detail["EndpointName"], error
        )


def endpoint_detail(described: Mapping[str, Any], *, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return an event's detail from a response of DescribeEndpoint."""
    detail = {name: described[name] for name in _EVENT_FIELDS if described.get(name) is not None}
    detail["EndpointStatus"] = event_status(described["EndpointStatus"])
    for name in ("CreationTime", "LastModifiedTime"):
        detail[name] = _milliseconds(described[name])
    return detail | {"Tags": dict(tags)}


def _milliseconds(at: datetime | float) -> int:
    return round((at.timestamp() if isinstance(at, datetime) else at) * 1000)


def event_status(status: str) -> str:
    """Return a status in the events' format: IN_SERVICE for InService."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", status).upper()


def publish_state_changes(clients: Clients, tags: Tags) -> Announce:
    """Return a function that sends SageMaker's events on a change to this cloud's EventBridge."""

    def announce(before: EndpointRecord | None, after: EndpointRecord, fleets: Fleets) -> None:
        kinds = []
        if before is None or before.status != after.status:
            kinds.append(ENDPOINT_CHANGE)
        if after.pending is not None and (before is None or before.stage != after.stage):
            kinds.append(DEPLOYMENT_CHANGE)
        for kind in kinds:
            tags_by_key = {tag["Key"]: tag["Value"] for tag in tags.of(after.arn)}
            detail = endpoint_detail(describe(after, *fleets), tags=tags_by_key)
            if kind == ENDPOINT_CHANGE:
                detail.pop("PendingDeploymentSummary", None)
            send_event(clients, after.plan.scope, detail, kind=kind)

    return announce
