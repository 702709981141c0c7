"""Plan an endpoint from its configuration and models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack_local.identity.scope import Scope
from tritonstack_local.sagemaker.control_plane.plans import (
    RANDOM,
    Capacity,
    DeploymentPlan,
    EndpointPlan,
    VariantRecord,
)
from tritonstack_local.sagemaker.control_plane.records import SageMakerTables
from tritonstack_local.sagemaker.control_plane.resources import CONFIG, MODEL, stored
from tritonstack_local.sagemaker.hosting.capture import CapturePlan

# SageMaker's defaults: eight minutes for the first healthy ping, and an hour for the download.
STARTUP_TIMEOUT_S = 480.0
DOWNLOAD_TIMEOUT_S = 3600.0
# Variables that SageMaker adds for multi-model containers.
MULTI_MODEL_VARIABLE = "SAGEMAKER_MULTI_MODEL"


def plan_endpoint(store: SageMakerTables, scope: Scope, *, endpoint: str, config_name: str) -> EndpointPlan:
    """Return the plan of a configuration and its models, which must exist."""
    config = stored(store.configs, scope, kind=CONFIG, name=config_name)
    data_capture = config.fields.get("DataCaptureConfig")
    capture = CapturePlan.of(data_capture)
    variants, deployments = [], []
    for variant in config.fields["ProductionVariants"]:
        model = stored(store.models, scope, kind=MODEL, name=variant["ModelName"])
        container = model.fields.get("PrimaryContainer") or model.fields["Containers"][0]
        variants.append(_variant(variant, container))
        deployments.append(_deployment(scope, endpoint, variant, container, capture))
    return EndpointPlan(scope, endpoint, config_name, tuple(variants), tuple(deployments), data_capture)


def _variant(variant: Mapping[str, Any], container: Mapping[str, Any]) -> VariantRecord:
    return VariantRecord(
        name=variant["VariantName"],
        image=container["Image"],
        instance_type=variant["InstanceType"],
        capacity=Capacity(variant["InitialInstanceCount"], variant.get("InitialVariantWeight", 1.0)),
    )


def _deployment(
    scope: Scope,
    endpoint: str,
    variant: Mapping[str, Any],
    container: Mapping[str, Any],
    capture: CapturePlan | None,
) -> DeploymentPlan:
    multi_model = container.get("Mode") == "MultiModel"
    caching = container.get("MultiModelConfig", {}).get("ModelCacheSetting", "Enabled")
    added = {MULTI_MODEL_VARIABLE: "true"} if multi_model else {}
    return DeploymentPlan(
        scope=scope,
        endpoint=endpoint,
        variant=variant["VariantName"],
        image=container["Image"],
        environment={**container.get("Environment", {}), **added},
        model_data_url=container.get("ModelDataUrl"),
        download_timeout_s=variant.get("ModelDataDownloadTimeoutInSeconds", DOWNLOAD_TIMEOUT_S),
        startup_timeout_s=variant.get("ContainerStartupHealthCheckTimeoutInSeconds", STARTUP_TIMEOUT_S),
        instance_type=variant["InstanceType"],
        volume_gb=variant.get("VolumeSizeInGB"),
        multi_model=multi_model,
        model_cache=caching == "Enabled",
        capture=capture,
        routing=variant.get("RoutingConfig", {}).get("RoutingStrategy", RANDOM),
    )
