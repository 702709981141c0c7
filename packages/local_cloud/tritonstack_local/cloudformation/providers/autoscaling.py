"""AWS::ApplicationAutoScaling resources."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.autoscaling.policies import NO_PREDICTION
from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ProviderError,
    ResourceRequest,
    ignoring,
)
from tritonstack_local.service.errors import sentence

_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_REGISTER = "application-autoscaling:RegisterScalableTarget"


class ScalableTargetProvider(Provider):
    """Identifier: `resource id|dimension|namespace`."""

    type_name = "AWS::ApplicationAutoScaling::ScalableTarget"
    properties: ClassVar = {
        "MaxCapacity": Property(shape=f"{_REGISTER}.MaxCapacity", required=True),
        "MinCapacity": Property(shape=f"{_REGISTER}.MinCapacity", required=True),
        "ResourceId": Property(create_only=True, required=True),
        "RoleARN": Property(),
        "ScalableDimension": Property(create_only=True, required=True),
        "ScheduledActions": Property(shape="application-autoscaling:ScheduledActions"),
        "ServiceNamespace": Property(create_only=True, required=True),
        "Tags": Property(),
        "SuspendedState": Property(shape=f"{_REGISTER}.SuspendedState"),
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Return the identifier; `settle` registers the target."""
        given = request.properties
        return "|".join((given["ResourceId"], given["ScalableDimension"], given["ServiceNamespace"]))

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Register the target with its limits, and put its scheduled actions."""
        scaling = request.client("application-autoscaling")
        settings = request.api(*_KEY, "MinCapacity", "MaxCapacity", "RoleARN", "SuspendedState")
        arn = scaling.register_scalable_target(**settings)["ScalableTargetARN"]
        if tags := request.properties.get("Tags"):
            scaling.tag_resource(ResourceARN=arn, Tags={tag["Key"]: str(tag["Value"]) for tag in tags})
        for action in request.value("ScheduledActions") or []:
            scaling.put_scheduled_action(**request.api(*_KEY), **action)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Delete scheduled actions and tags that the template no longer has."""
        kept = {action["ScheduledActionName"] for action in request.properties.get("ScheduledActions", [])}
        _delete_actions(previous, keep=kept)
        old, new = ({tag["Key"] for tag in one.properties.get("Tags", [])} for one in (previous, request))
        if old - new:
            scaling = request.client("application-autoscaling")
            names = ("ServiceNamespace", "ScalableDimension")
            found = scaling.describe_scalable_targets(
                **request.api(*names), ResourceIds=[request.properties["ResourceId"]]
            )
            for target in found["ScalableTargets"]:
                scaling.untag_resource(ResourceARN=target["ScalableTargetARN"], TagKeys=sorted(old - new))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the scheduled actions and deregister the target."""
        _delete_actions(request, keep=set())
        with ignoring("ObjectNotFoundException"):
            request.client("application-autoscaling").deregister_scalable_target(**request.api(*_KEY))

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the identifier."""
        return {"Id": physical_id}


def _delete_actions(request: ResourceRequest, *, keep: set[str]) -> None:
    for action in request.properties.get("ScheduledActions", []):
        if action["ScheduledActionName"] in keep:
            continue
        with ignoring("ObjectNotFoundException"):
            request.client("application-autoscaling").delete_scheduled_action(
                **request.api(*_KEY), ScheduledActionName=action["ScheduledActionName"]
            )


_CONFIGURATIONS = (
    "StepScalingPolicyConfiguration",
    "TargetTrackingScalingPolicyConfiguration",
)


class ScalingPolicyProvider(Provider):
    """Identifier: the policy's ARN."""

    type_name = "AWS::ApplicationAutoScaling::ScalingPolicy"
    properties: ClassVar = {
        "PolicyName": Property(create_only=True, required=True),
        "PolicyType": Property(required=True),
        "ResourceId": Property(create_only=True),
        "ScalableDimension": Property(create_only=True),
        "ScalingTargetId": Property(create_only=True),
        "ServiceNamespace": Property(create_only=True),
        **{
            name: Property(shape=f"application-autoscaling:PutScalingPolicy.{name}")
            for name in _CONFIGURATIONS
        },
        "PredictiveScalingPolicyConfiguration": Property(effect=False, reason=sentence(NO_PREDICTION)),
    }
    attribute_names = frozenset({"Arn"})

    def create(self, request: ResourceRequest) -> str:
        """Put the policy."""
        return _put(request)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Put the policy again."""
        _put(request)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the policy."""
        with ignoring("ObjectNotFoundException"):
            request.client("application-autoscaling").delete_scaling_policy(
                **_target(request), PolicyName=request.properties["PolicyName"]
            )

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN."""
        return {"Arn": physical_id}


def _put(request: ResourceRequest) -> str:
    settings = request.api("PolicyName", "PolicyType", *_CONFIGURATIONS)
    made = request.client("application-autoscaling").put_scaling_policy(**_target(request), **settings)
    return str(made["PolicyARN"])


def _target(request: ResourceRequest) -> dict[str, str]:
    if "ScalingTargetId" in request.properties:
        resource, dimension, namespace = request.properties["ScalingTargetId"].split("|")
        return {"ServiceNamespace": namespace, "ResourceId": resource, "ScalableDimension": dimension}
    if not all(name in request.properties for name in _KEY):
        raise ProviderError(f"a scaling policy needs ScalingTargetId, or all of {', '.join(_KEY)}")
    return {name: str(request.properties[name]) for name in _KEY}
