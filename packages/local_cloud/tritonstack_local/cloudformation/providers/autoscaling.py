"""AWS::ApplicationAutoScaling resources."""

from __future__ import annotations

from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    Deletion,
    Property,
    Provider,
    ResourceRequest,
    alike,
    ignoring,
)

_SERVICE = "application-autoscaling"
_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")


class ScalingProvider(Provider):
    """A type of Application Auto Scaling."""

    @property
    def service(self) -> str:
        """boto3's name of the service."""
        return _SERVICE


class ScalableTargetProvider(ScalingProvider):
    """Identifier: `resource id|dimension|namespace`."""

    def create(self, request: ResourceRequest) -> str:
        """Return the identifier; `settle` registers the target."""
        target = self.target(request, "")
        return "|".join((target["ResourceId"], target["ScalableDimension"], target["ServiceNamespace"]))

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the arguments that name the target."""
        return request.api(*_KEY)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Register the target with its limits, and put its scheduled actions."""
        scaling = request.client(_SERVICE)
        settings = request.api(*_KEY, "MinCapacity", "MaxCapacity")
        tags = {"Tags": request.tags} if request.tags else {}
        scaling.register_scalable_target(**settings, **tags)
        for action in request.value("ScheduledActions") or []:
            scaling.put_scheduled_action(**self.target(request, physical_id), **action)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Delete scheduled actions and tags that the template no longer has."""
        self._delete_actions(previous, _actions(previous) - _actions(request))
        super().update(request, physical_id, previous)

    def remove_tags(self, request: ResourceRequest, physical_id: str, keys: list[str]) -> None:
        """Remove tags; they belong to an ARN that only Application Auto Scaling knows."""
        scaling = request.client(_SERVICE)
        targets = scaling.describe_scalable_targets(
            **request.api("ServiceNamespace", "ScalableDimension"),
            ResourceIds=[request.properties["ResourceId"]],
        )
        for target in targets["ScalableTargets"]:
            scaling.untag_resource(ResourceARN=target["ScalableTargetARN"], TagKeys=keys)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the scheduled actions and deregister the target."""
        self._delete_actions(request, _actions(request))
        super().delete(request, physical_id)

    def _delete_actions(self, request: ResourceRequest, names: set[str]) -> None:
        for name in sorted(names):
            with ignoring(self.deletion.gone):
                request.client(_SERVICE).delete_scheduled_action(
                    **self.target(request, ""), ScheduledActionName=name
                )


def _actions(request: ResourceRequest) -> set[str]:
    return {action["ScheduledActionName"] for action in request.properties.get("ScheduledActions", [])}


_TARGET = ScalableTargetProvider(
    type_name="AWS::ApplicationAutoScaling::ScalableTarget",
    properties={
        **alike("MaxCapacity MinCapacity", operation=f"{_SERVICE}:RegisterScalableTarget", required=True),
        **alike("ResourceId ScalableDimension ServiceNamespace", create_only=True, required=True),
        "Tags": Property(),
        "ScheduledActions": Property(shape=f"{_SERVICE}:ScheduledActions"),
    },
    deletion=Deletion("deregister_scalable_target", "ObjectNotFoundException"),
    attributes={"Id": "{id}"},
)


class ScalingPolicyProvider(ScalingProvider):
    """Identifier: the policy's ARN."""

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the arguments that name the policy."""
        resource, dimension, namespace = request.properties["ScalingTargetId"].split("|")
        named = dict(zip(_KEY, (namespace, resource, dimension), strict=True))
        return named | request.api("PolicyName")

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return what the policy does."""
        return request.api("PolicyType", *_CONFIGURATIONS.split())

    def create(self, request: ResourceRequest) -> str:
        """Put the policy."""
        answer = self.call(
            request, self.update_operation, **self.target(request, ""), **self.arguments(request)
        )
        return str(answer["PolicyARN"])


_CONFIGURATIONS = "StepScalingPolicyConfiguration TargetTrackingScalingPolicyConfiguration"

_POLICY = ScalingPolicyProvider(
    type_name="AWS::ApplicationAutoScaling::ScalingPolicy",
    properties={
        **alike("PolicyName ScalingTargetId", create_only=True, required=True),
        **alike("PolicyType", required=True),
        **alike(_CONFIGURATIONS, operation=f"{_SERVICE}:PutScalingPolicy"),
    },
    update_operation="put_scaling_policy",
    deletion=Deletion("delete_scaling_policy", "ObjectNotFoundException"),
    attributes={"Arn": "{id}"},
)

TYPES = (_TARGET, _POLICY)
