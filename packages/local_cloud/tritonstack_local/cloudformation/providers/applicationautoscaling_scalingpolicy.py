"""AWS::ApplicationAutoScaling::ScalingPolicy."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ProviderError,
    ResourceRequest,
    ignoring,
)

_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_CONFIGURATIONS = (
    "PredictiveScalingPolicyConfiguration",
    "StepScalingPolicyConfiguration",
    "TargetTrackingScalingPolicyConfiguration",
)


class ScalingPolicy(Provider):
    """Identifier: the policy's ARN."""

    type_name = "AWS::ApplicationAutoScaling::ScalingPolicy"
    kept_only = "Nothing scales here, and the alarms that AWS makes for target tracking are not made."
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
    }
    attribute_names = frozenset({"Arn"})

    def create(self, request: ResourceRequest) -> str:
        """Put the policy."""
        return _put(request)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Put the policy anew."""
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
