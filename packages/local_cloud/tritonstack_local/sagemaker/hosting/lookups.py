"""Look up rollback alarms and scalable targets before and during an update."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tritonstack_local.identity.scope import Scope
from tritonstack_local.service.clients import Clients

ReadAlarms = Callable[[Scope, Sequence[str]], dict[str, str]]
"""Returns the states of the named alarms of a scope; missing alarms are omitted."""


def ask_cloudwatch(clients: Clients) -> ReadAlarms:
    """Return lookups in this cloud's CloudWatch."""

    def read(scope: Scope, names: Sequence[str]) -> dict[str, str]:
        if not names:
            return {}
        found = clients.client("cloudwatch", scope).describe_alarms(
            AlarmNames=list(names), AlarmTypes=["MetricAlarm", "CompositeAlarm"]
        )
        alarms = [*found.get("MetricAlarms", []), *found.get("CompositeAlarms", [])]
        return {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms}

    return read


IsScaled = Callable[[Scope, str, str], bool]
"""Returns whether a variant is a scalable target: scope, endpoint, variant."""


def ask_autoscaling(clients: Clients) -> IsScaled:
    """Return lookups in this cloud's Application Auto Scaling."""

    def is_scaled(scope: Scope, endpoint: str, variant: str) -> bool:
        autoscaling = clients.client("application-autoscaling", scope)
        found = autoscaling.describe_scalable_targets(
            ServiceNamespace="sagemaker",
            ResourceIds=[f"endpoint/{endpoint}/variant/{variant}"],
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        )
        return bool(found["ScalableTargets"])

    return is_scaled
