"""Keep through an update what scaling has set: CloudFormation writes the template's numbers.

The copies of inference components and the limits of scheduled targets are parameters of the stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tritonstack.base import naming
from tritonstack.constructs.endpoint.scaling_plan import ScheduledLimits
from tritonstack.files.endpoint.endpoint import Components, ServingOptions
from tritonstack.files.endpoint.rollouts import Rolling
from tritonstack.files.endpoint.scaling import DAYS, Scaling
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.operate.deploy.changes import Changes
from tritonstack.operate.shared.aws import Cloud, if_present
from tritonstack.operate.synth.assembly import EndpointTemplate, Properties, Template, parameter_of

_WEEK = timedelta(days=8)


@dataclass(frozen=True)
class LimitChange:
    """New limits from a second of the simulation on."""

    at: float
    minimum: int
    maximum: int
    name: str


def limit_changes(
    scheduled: Sequence[ScheduledLimits], *, begin: datetime, seconds: float
) -> tuple[LimitChange, ...]:
    """Return the changes of a period; the first is that which is in force at its begin, if any."""
    changes = sorted(
        (change for limits in scheduled for change in _occurrences(limits, begin, seconds)),
        key=lambda change: change.at,
    )
    earlier = [change for change in changes if change.at <= 0]
    return (*earlier[-1:], *(change for change in changes if change.at > 0))


def _occurrences(limits: ScheduledLimits, begin: datetime, seconds: float) -> Iterator[LimitChange]:
    minute, hour, _, _, days, _ = limits.schedule.removeprefix("cron(").removesuffix(")").split()
    zone, weekdays = ZoneInfo(limits.timezone), {DAYS.index(day) for day in days.split(",")}
    day = (begin - _WEEK).astimezone(zone).date()
    last = (begin + timedelta(seconds=seconds)).astimezone(zone).date()
    while day <= last:
        if day.weekday() in weekdays:
            when = datetime.combine(day, time(int(hour), int(minute)), zone).astimezone(UTC)
            at = (when - begin).total_seconds()
            if at < seconds:
                yield LimitChange(at, limits.minimum, limits.maximum, limits.name)
        day += timedelta(days=1)


def limit_parameters(changes: Changes, now: datetime) -> list[str]:
    """Return the CDK's arguments that set the limits of the schedules in force, for each target that changes.

    The target's own limits would apply until the next scheduled action.
    """
    return [
        argument
        for plan in changes.plans
        for name, target in EndpointTemplate(changes.assembly.template(plan.stack)).scheduled.items()
        for argument in _limits(plan.stack, name, target, changes, now)
    ]


def _limits(stack: str, name: str, target: Properties, changes: Changes, now: datetime) -> Iterator[str]:
    deployed, new = changes.deployed.get(stack, {}), changes.assembly.template(stack)
    before = EndpointTemplate(deployed).scheduled.get(name)
    if before == target and [*_declared(before, deployed)] == [*_declared(target, new)]:
        return
    scheduled = [
        ScheduledLimits(
            action["ScheduledActionName"],
            action["Schedule"],
            action["Timezone"],
            action["ScalableTargetAction"]["MinCapacity"],
            action["ScalableTargetAction"]["MaxCapacity"],
        )
        for action in target["ScheduledActions"]
    ]
    in_force = limit_changes(scheduled, begin=now, seconds=1)[0]
    yield from _argument(stack, target["MinCapacity"], in_force.minimum)
    yield from _argument(stack, target["MaxCapacity"], in_force.maximum)


def copy_parameters(cloud: Cloud, spec: EnvironmentSpec, changes: Changes) -> list[str]:
    """Return the CDK's arguments that keep the copies of each component that the deployment updates.

    An unchanged component gets none: another number would be an update, too. The CDK then keeps the numbers
    of the last deployment.
    """
    planned = {plan.stack for plan in changes.plans}
    return [
        argument
        for name, endpoint in spec.endpoints.items()
        if (stack := naming.endpoint_stack_name(spec.base, name)) in planned
        for argument in _arguments(cloud, stack, endpoint, changes)
    ]


def _arguments(cloud: Cloud, stack: str, endpoint: ServingOptions, changes: Changes) -> Iterator[str]:
    deployed, new = changes.deployed.get(stack), changes.assembly.template(stack)
    component = EndpointTemplate(new).component
    if not endpoint.components or not deployed or not component or _part(deployed) == _part(new):
        return
    running = _running_copies(cloud, component["InferenceComponentName"])
    if running is None:
        return
    copies = _kept_copies(endpoint.components, endpoint.scaling, running)
    yield from _argument(stack, component["RuntimeConfig"]["CopyCount"], copies)
    rollout = endpoint.planned_rollout
    if isinstance(rollout, Rolling):
        policy = component["DeploymentConfig"]["RollingUpdatePolicy"]
        yield from _argument(stack, policy["MaximumBatchSize"]["Value"], rollout.batch_copies(copies))


def _kept_copies(components: Components, scaling: Scaling, running: int) -> int:
    """Return the number of copies after an update: those that run, within all limits that may be in force.

    At least one, even if none runs: an update must prove that the model starts.
    """
    schedules = scaling.schedules.values()
    least = min([components.min_copies, *(schedule.min for schedule in schedules)])
    most = max([components.max_copies, *(schedule.max for schedule in schedules)])
    return max(1, least, min(running, most))


def _part(template: Template) -> list[Any]:
    """Return what CloudFormation updates a component for: its properties, its model, and its parameters."""
    side = EndpointTemplate(template)
    component: Properties = side.component or {}
    return [component, side.model(component), *_declared(component, template)]


def _declared(value: Any, template: Template) -> Iterator[Properties]:
    if parameter := parameter_of(value, template):
        yield parameter
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _declared(inner, template)


def _running_copies(cloud: Cloud, name: str) -> int | None:
    describe = cloud.client("sagemaker").describe_inference_component
    component = if_present(describe, InferenceComponentName=name)
    return int(component["RuntimeConfig"]["DesiredCopyCount"]) if component else None


def _argument(stack: str, value: Any, number: int) -> Iterator[str]:
    yield from ("--parameters", f"{stack}:{value['Ref']}={number}")
