"""Build DescribeEndpoint responses from an endpoint's record and its running instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack_local.sagemaker.control_plane.plans import VariantRecord
from tritonstack_local.sagemaker.control_plane.records import EndpointRecord, PendingUpdate, UpdateStage
from tritonstack_local.sagemaker.hosting.fleet import Fleet

Fields = Mapping[str, Any]

_SERVING = ("InService", "Updating", "RollingBack", "SystemUpdating", "Deleting")


def describe(record: EndpointRecord, serving: Fleet | None, arriving: Fleet | None) -> Fields:
    """Build the response; the fleets are the current ones."""
    shown: dict[str, Any] = {
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
        shown["ProductionVariants"] = [_shown(variant, serving, stage) for variant in record.variants]
    if record.pending is not None:
        shown["PendingDeploymentSummary"] = _pending(record.pending, arriving, record.stage)
    return shown


def _pending(pending: PendingUpdate, arriving: Fleet | None, stage: UpdateStage | None) -> Fields:
    variants = [
        {**_shown(variant, arriving, stage), "InstanceType": variant.instance_type}
        for variant in pending.variants
    ]
    return {
        "EndpointConfigName": pending.plan.config_name,
        "ProductionVariants": variants,
        "StartTime": pending.started,
    }


def _shown(variant: VariantRecord, fleet: Fleet | None, stage: UpdateStage | None) -> Fields:
    pool = None if fleet is None else fleet.pools.get(variant.name)
    shown = {
        "VariantName": variant.name,
        "DeployedImages": [{"SpecifiedImage": variant.image}],
        "CurrentWeight": variant.capacity.weight,
        "DesiredWeight": variant.capacity.weight,
        "CurrentInstanceCount": 0 if pool is None else len(pool.instances),
        "DesiredInstanceCount": variant.capacity.instance_count,
    }
    if stage is not None and variant.name in stage.messages:
        status = {
            "Status": stage.status,
            "StatusMessage": stage.messages[variant.name],
            "StartTime": stage.started,
        }
        shown["VariantStatus"] = [status]
    return shown


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
