"""AWS::ApplicationAutoScaling::ScalableTarget."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring

_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_REGISTER = "application-autoscaling:RegisterScalableTarget"


class ScalableTarget(Provider):
    """Identifier: `resource id|dimension|namespace`."""

    type_name = "AWS::ApplicationAutoScaling::ScalableTarget"
    kept_only = "Nothing scales here, by measure or by the clock; that stays with AWS."
    properties: ClassVar = {
        "MaxCapacity": Property(shape=f"{_REGISTER}.MaxCapacity", required=True),
        "MinCapacity": Property(shape=f"{_REGISTER}.MinCapacity", required=True),
        "ResourceId": Property(create_only=True, required=True),
        "RoleARN": Property(),
        "ScalableDimension": Property(create_only=True, required=True),
        "ScheduledActions": Property(shape="application-autoscaling:ScheduledActions"),
        "ServiceNamespace": Property(create_only=True, required=True),
        "Tags": Property(effect=False, why="They are not even kept: nothing here asks for them."),
        "SuspendedState": Property(shape=f"{_REGISTER}.SuspendedState"),
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Return the identifier; `settle` registers the target."""
        given = request.properties
        return "|".join((given["ResourceId"], given["ScalableDimension"], given["ServiceNamespace"]))

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Register the target, or its new limits, and put its scheduled actions."""
        scaling = request.client("application-autoscaling")
        settings = request.api(*_KEY, "MinCapacity", "MaxCapacity", "RoleARN", "SuspendedState")
        scaling.register_scalable_target(**settings)
        for action in request.value("ScheduledActions") or []:
            scaling.put_scheduled_action(**request.api(*_KEY), **action)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Delete scheduled actions that the template no longer has."""
        kept = {action["ScheduledActionName"] for action in request.properties.get("ScheduledActions", [])}
        _delete_actions(previous, keep=kept)

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
