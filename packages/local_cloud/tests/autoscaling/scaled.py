"""A scaler with a clock of its own, an endpoint that obeys it, and alarms that tests set."""

import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from tritonstack.facts.scaling_rules import VARIANT_DIMENSION
from tritonstack_local.autoscaling.app import ScalingActions
from tritonstack_local.autoscaling.decisions import AlarmReading
from tritonstack_local.autoscaling.records import AutoScalingTables
from tritonstack_local.autoscaling.scaler import History, Scaler
from tritonstack_local.sagemaker.endpoints import VariantCapacity
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import validation_exception
from tritonstack_local.settings import TimeScale

SCOPE = Scope("123456789012", "eu-west-1")
KEY = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/e/variant/v",
    "ScalableDimension": VARIANT_DIMENSION,
}
TARGET = KEY["ResourceId"]
MINUTE_S = 1.0


class ObedientEndpoint:
    """One variant that is Updating from a request until `finish`."""

    def __init__(self) -> None:
        self.held: VariantCapacity | None = VariantCapacity(desired=1, running=1, status="InService")
        self.asked: list[int] = []

    def capacity_of(self, scope: Scope, endpoint: str, variant: str) -> VariantCapacity | None:
        assert (scope, endpoint, variant) == (SCOPE, "e", "v")
        return self.held

    def update_weights_and_capacities(self, scope: Scope, request: Any) -> dict[str, Any]:
        assert self.held is not None
        (wanted,) = request["DesiredWeightsAndCapacities"]
        count = wanted["DesiredInstanceCount"]
        self.asked.append(count)
        if self.held.status != "InService":
            raise validation_exception('Cannot update in-progress endpoint "e".')
        if count == 0:
            raise validation_exception("a variant needs at least one instance")
        self.held = replace(self.held, desired=count, status="Updating")
        return {}

    def finish(self, **changes: Any) -> None:
        assert self.held is not None
        changes = {"running": self.held.desired, "status": "InService"} | changes
        self.held = replace(self.held, **changes)


class RecordedAlarms:
    """Takes the place of CloudWatch."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def put(self, scope: Scope, policy: Any) -> None:
        self.names |= set(policy.alarms)

    def delete(self, scope: Scope, names: list[str]) -> None:
        self.names -= set(names)


@dataclass
class Scaled:
    """The parts, and the current time."""

    now: float = field(default_factory=time.time)
    endpoint: ObedientEndpoint = field(default_factory=ObedientEndpoint)
    store: AutoScalingTables = field(default_factory=AutoScalingTables)
    readings: dict[str, AlarmReading] = field(default_factory=dict)
    alarms: RecordedAlarms = field(default_factory=RecordedAlarms)

    def __post_init__(self) -> None:
        history = History(store=self.store)
        self.actions = ScalingActions(store=self.store, alarms=self.alarms, history=history)  # type: ignore[arg-type]
        self.scaler = Scaler(
            store=self.store,
            history=history,
            endpoints=self.endpoint,  # type: ignore[arg-type]
            read_alarm=lambda _, name: self.readings.get(name),
            remove_target=self.actions.remove,
            time_scale=TimeScale(minute_s=MINUTE_S),
        )

    def register(self, low: int = 1, high: int = 10, **more: Any) -> None:
        self.actions.register_scalable_target(SCOPE, KEY | {"MinCapacity": low, "MaxCapacity": high} | more)
        self.look()

    def track(self, name: str = "p", target: float = 100.0, **configuration: Any) -> None:
        metric = {"MetricName": name, "Namespace": "N", "Statistic": "Sum"}
        given = {"TargetValue": target, "CustomizedMetricSpecification": metric, **configuration}
        self.put_policy(name, "TargetTrackingScaling", given)

    def put_policy(self, name: str, kind: str, configuration: dict[str, Any]) -> None:
        request = KEY | {"PolicyName": name, "PolicyType": kind, f"{kind}PolicyConfiguration": configuration}
        self.actions.put_scaling_policy(SCOPE, request)

    def policy(self, name: str = "p") -> Any:
        return self.store.targets.get(SCOPE, TARGET).policies[name]  # type: ignore[union-attr]

    def high(self, value: float, name: str = "p") -> None:
        """Let the high alarm of a policy fire, and look."""
        self.fire(self.policy(name), self.policy(name).high, value)

    def low(self, *values: float, name: str = "p") -> None:
        """Let the low alarm of a policy fire, and look."""
        self.fire(self.policy(name), self.policy(name).low, *values)

    def fire(self, policy: Any, alarm: str, *values: float, threshold: float = 100.0) -> None:
        self.say(alarm, *values, threshold=threshold)
        refused = self.scaler.alarmed(
            SimpleNamespace(scope=SCOPE, name=alarm),  # type: ignore[arg-type]
            f"{policy.arn}:createdBy/0",
        )
        assert refused is None
        self.look()

    def say(self, alarm: str, *values: float, state: str = "ALARM", threshold: float = 100.0) -> None:
        self.readings[alarm] = AlarmReading(
            name=alarm, state=state, values=values, threshold=threshold, rises="AlarmLow" not in alarm
        )

    def look(self, *, after_s: float = 0.0) -> None:
        """Let time pass, and look at every target."""
        self.now += after_s
        self.scaler.look(self.now)

    def finish(self, **changes: Any) -> None:
        """Complete the endpoint's operation."""
        self.endpoint.finish(**changes)
        self.look()

    def activities(self, **request: Any) -> list[dict[str, Any]]:
        found = self.actions.describe_scaling_activities(SCOPE, {"ServiceNamespace": "sagemaker", **request})
        return list(found["ScalingActivities"])

    @property
    def limits(self) -> tuple[int, int]:
        record = self.store.targets.get(SCOPE, TARGET)
        assert record is not None
        return record.limits
