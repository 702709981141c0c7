"""Switch endpoints to what CloudFormation has retained, before any deployment: `rollback --now`.

All at once or, if the rollout is rolling, in its batches; without alarms and waits, and with the running
instances or copies. Lock and stack follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tritonstack.base import naming
from tritonstack.files.endpoint.endpoint import EndpointSpec, MultiModelEndpoint, Variant
from tritonstack.files.endpoint.rollouts import Rolling
from tritonstack.files.project.custom_images import locked_uri
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.manifests import ARCHIVE_NAME
from tritonstack.operate.deploy.switching import Switch, switch
from tritonstack.operate.destroy.retained import ServingResource, serving_resources, variants_of
from tritonstack.operate.rollback.rollback_targets import RollbackError, RollbackPlan
from tritonstack.operate.shared.aws import Cloud, explain_denied, if_present
from tritonstack.operate.shared.running import SERVING, RolledBackError

_ALL_AT_ONCE = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0},
        "TerminationWaitInSeconds": 0,
    }
}
"""No alarms: those that fire because of the present artifacts would stop the update."""
_CONFIG_PARTS = (
    "AsyncInferenceConfig",
    "DataCaptureConfig",
    "EnableNetworkIsolation",
    "ExecutionRoleArn",
    "KmsKeyId",
    "VpcConfig",
)
_MODEL_PARTS = ("EnableNetworkIsolation", "ExecutionRoleArn", "VpcConfig")
"""What a rollback must not change: it restores artifacts only."""
_KEPT_PARTS = ("StartupParameters", "ComputeResourceRequirements", "DataCacheConfig", "SchedulingConfig")
"""What an update of a component repeats; a part that is left out would be removed."""

Container = tuple[str, str | None]
"""The model data of a variant, and its custom image."""


def plan_switches(cloud: Cloud, after: Workspace, plan: RollbackPlan) -> list[Switch]:
    """Find what each endpoint of a rollback is switched to; `after` has the earlier lock.

    Multi-model endpoints need no switch: their models are objects. Raises RollbackError if anything needs a
    deployment.
    """
    stacks = {name: naming.endpoint_stack_name(after.spec.base, name) for name in plan.concerned}
    with explain_denied("tag"):
        resources = serving_resources(cloud, lambda stack: stack in stacks.values())
    switches = []
    for name, stack in stacks.items():
        endpoint = after.spec.endpoints[name]
        retained = sorted(
            (item for item in resources if item.stack == stack), key=lambda item: item.created, reverse=True
        )
        if isinstance(endpoint, MultiModelEndpoint):
            _reject_image(plan, name, endpoint)
        elif endpoint.components is not None:
            switches.append(_for_component(cloud, after, name, retained))
        else:
            switches.append(_for_endpoint(cloud, after, name, retained))
    return switches


def _reject_image(plan: RollbackPlan, name: str, endpoint: MultiModelEndpoint) -> None:
    if any(step.slot.image and step.slot.name == endpoint.image for step in plan.steps):
        raise _impossible(name, f"image {endpoint.image!r} of a multi-model endpoint")


def _impossible(name: str, what: str) -> RollbackError:
    return RollbackError(
        f"endpoint {name!r} cannot be rolled back at once: {what}",
        remedy="omit --now; the rollback then deploys the earlier artifacts",
    )


def _for_endpoint(cloud: Cloud, after: Workspace, name: str, retained: list[ServingResource]) -> Switch:
    sagemaker = cloud.client("sagemaker")
    full_name, expected = after.spec.endpoint_name(name), _containers(after, name)
    described = if_present(sagemaker.describe_endpoint, EndpointName=full_name)
    if described is None:
        raise _impossible(name, "it does not exist")
    active, status = described["EndpointConfigName"], described["EndpointStatus"]
    coming = described.get("PendingDeploymentSummary", {}).get("EndpointConfigName", active)
    if status in (*SERVING, "Updating") and _serves(
        sagemaker, variants_of(sagemaker, coming) or {}, expected
    ):
        return Switch(full_name, coming, done=True)
    if status not in SERVING:
        raise _impossible(name, f"its status is {status}")
    present = variants_of(sagemaker, active) or {}
    if not present:
        raise _impossible(name, f"SageMaker cannot update it: its configuration {active} was deleted")
    for item in retained:
        if item.kind != "EndpointConfig" or item.key == active.lower():
            continue
        variants = variants_of(sagemaker, item.name) or {}
        if _serves(sagemaker, variants, expected):
            _require_same_instances(name, item.name, present, variants)
            _require_same_settings(sagemaker, name, (active, present), (item.name, variants))
            rollout = after.spec.endpoints[name].planned_rollout
            batch = rollout.batch_percent if isinstance(rollout, Rolling) else None
            return Switch(full_name, item.name, update=_endpoint_update(batch))
    raise _impossible(name, "no retained configuration serves these artifacts")


def _require_same_instances(
    name: str,
    config: str,
    present: Mapping[str, Mapping[str, Any]],
    variants: Mapping[str, Mapping[str, Any]],
) -> None:
    """SageMaker rejects another instance type of a variant that scales."""
    for variant, settings in variants.items():
        now, then = present.get(variant, {}).get("InstanceType"), settings.get("InstanceType")
        if now != then:
            raise _impossible(name, f"configuration {config} has {then} for variant {variant!r}, not {now}")


def _require_same_settings(
    sagemaker: Any,
    name: str,
    present: tuple[str, Mapping[str, Mapping[str, Any]]],
    retained: tuple[str, Mapping[str, Mapping[str, Any]]],
) -> None:
    """Compare configurations, each given with its variants, and their models."""
    now, then = (
        if_present(sagemaker.describe_endpoint_config, EndpointConfigName=config) or {}
        for config, _ in (present, retained)
    )
    _require_same(name, retained[0], now, then, _CONFIG_PARTS)
    for variant, settings in retained[1].items():
        _require_same_model(sagemaker, name, present[1][variant]["ModelName"], settings["ModelName"])


def _require_same_model(sagemaker: Any, name: str, present: str, retained: str) -> None:
    now, then = (if_present(sagemaker.describe_model, ModelName=model) or {} for model in (present, retained))
    _require_same(name, retained, now, then, _MODEL_PARTS)


def _require_same(
    name: str, retained: str, now: Mapping[str, Any], then: Mapping[str, Any], parts: Iterable[str]
) -> None:
    differing = [part for part in parts if _unordered(now.get(part)) != _unordered(then.get(part))]
    if differing:
        raise _impossible(name, f"{retained} has another {', '.join(differing)} than what runs")


def _unordered(value: Any) -> Any:
    """Return a setting without the order of its lists; what is off equals what is missing."""
    if isinstance(value, Mapping):
        return {key: _unordered(item) for key, item in value.items()}
    return sorted(map(str, value)) if isinstance(value, list) else value or None


def _for_component(cloud: Cloud, after: Workspace, name: str, retained: list[ServingResource]) -> Switch:
    sagemaker, full_name = cloud.client("sagemaker"), after.spec.endpoint_name(name)
    component = naming.component_name(full_name)
    ((_, expected),) = _containers(after, name).items()
    described = if_present(sagemaker.describe_inference_component, InferenceComponentName=component)
    if described is None:
        raise _impossible(name, f"its inference component {component} does not exist")
    active = described["Specification"]["ModelName"]
    if _matches(sagemaker, active, expected):
        return Switch(full_name, active, component, done=True)
    if described["InferenceComponentStatus"] != "InService":
        raise _impossible(name, f"the status of its component is {described['InferenceComponentStatus']}")
    for item in retained:
        if item.kind == "Model" and _matches(sagemaker, item.name, expected):
            _require_same_model(sagemaker, name, active, item.name)
            return Switch(full_name, item.name, component, update=_component_update(described, item.name))
    raise _impossible(name, "no retained model has these artifacts")


def _containers(after: Workspace, name: str) -> dict[str, Container]:
    endpoint = after.spec.endpoints[name]
    return {variant.name: _container(after, name, endpoint, variant) for variant in endpoint.variants}


def _container(after: Workspace, name: str, endpoint: EndpointSpec, variant: Variant) -> Container:
    model = variant.model or str(endpoint.models[0])
    artifact, image = after.artifact_for(model, variant.instance), after.image_for(name, variant.instance)
    prefix = naming.artifact_prefix(model, artifact.digest if artifact else "")
    url = f"s3://{after.spec.artifact_bucket}/{prefix}/{ARCHIVE_NAME}"
    return url, locked_uri(after.spec, image) if image else None


def _serves(
    sagemaker: Any, variants: Mapping[str, Mapping[str, Any]], expected: Mapping[str, Container]
) -> bool:
    return variants.keys() == expected.keys() and all(
        _matches(sagemaker, variant.get("ModelName"), expected[name]) for name, variant in variants.items()
    )


def _matches(sagemaker: Any, model: str | None, expected: Container) -> bool:
    if model is None:
        return False
    described = if_present(sagemaker.describe_model, ModelName=model) or {}
    container, (url, image) = described.get("PrimaryContainer", {}), expected
    return container.get("ModelDataUrl") == url and image in (None, container.get("Image"))


def switch_back(cloud: Cloud, planned: Switch, *, on_change: Callable[[str], None]) -> None:
    """Make a planned change; raise RollbackError unless it serves in the end."""
    if reason := switch(cloud, planned, on_change=on_change):
        name = planned.component or planned.endpoint
        raise RollbackError(
            f"{name} could not be switched to its earlier artifacts: {reason}",
            remedy="see its log (`tritonstack logs`), fix the cause, and rerun; lock and stacks are "
            "unchanged, but other endpoints of this rollback may serve their earlier artifacts already",
            code=RolledBackError.code,
        )


def _endpoint_update(batch_percent: int | None) -> dict[str, Any]:
    """Return the parameters of an update; a second fleet may exceed the quotas of a rolling rollout."""
    deployment: dict[str, Any] = _ALL_AT_ONCE
    if batch_percent is not None:
        size = {"Type": "CAPACITY_PERCENT", "Value": batch_percent}
        deployment = {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": 0}}
    return {
        "RetainAllVariantProperties": True,
        # Only the instance counts stay; weights and data capture belong to the configuration.
        "ExcludeRetainedVariantProperties": [
            {"VariantPropertyType": "DesiredWeight"},
            {"VariantPropertyType": "DataCaptureConfig"},
        ],
        "DeploymentConfig": deployment,
    }


def _component_update(described: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the parameters of an update that changes a component's model only."""
    specification, copies = described["Specification"], described["RuntimeConfig"]["DesiredCopyCount"]
    kept = {part: specification[part] for part in _KEPT_PARTS if part in specification}
    # SageMaker replaces at most half of the copies at once.
    size = {"Type": "COPY_COUNT", "Value": max(1, copies // 2)}
    return {
        "Specification": {**kept, "ModelName": model},
        "DeploymentConfig": {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": 0}},
    }
