"""Plan how an endpoint's variants, or the copies of its inference component, are scaled.

The plan is plain data; `autoscaling.py` creates the Application Auto Scaling resources from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tritonstack.base import naming
from tritonstack.constructs.monitoring.alarm_plan import AlarmPlan
from tritonstack.constructs.monitoring.monitored import (
    Metric,
    Monitored,
    MonitoredVariant,
    Series,
    copy_metric,
    machine_metric,
    queue_metric,
    request_metric,
)
from tritonstack.files.endpoint.endpoint import Components, ServingOptions
from tritonstack.files.endpoint.scaling import (
    DAYS,
    DEFAULT_INVOCATIONS_PER_INSTANCE,
    Scaling,
    Schedule,
    StepMetric,
)

_MINUTE = 60
_QUIET_MINUTES = 5
"""How long the load must stay low before instances are removed."""
_UTILIZATION = ("cpu_utilization_percent", "gpu_utilization_percent")
_STARTING_S = 300
"""Cooldown after adding an instance: it takes minutes to start, and the alarm stays on until then."""


@dataclass(frozen=True)
class Tracking:
    """Target tracking: keep one metric at a value."""

    measure: str
    target: float
    predefined: str | None = None
    """Application Auto Scaling's predefined metric name, if any."""
    metric: Metric | None = None
    """Otherwise, the metric to average."""


@dataclass(frozen=True)
class Adjustment:
    """One step adjustment: the change for a range above or below the alarm's threshold."""

    change: int
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Stepping:
    """Step scaling, triggered by an alarm."""

    id: str
    adjustments: tuple[Adjustment, ...]
    cooldown_s: int
    alarm: AlarmPlan


@dataclass(frozen=True)
class ScheduledLimits:
    """New limits from a scheduled time on."""

    name: str
    schedule: str
    timezone: str
    minimum: int
    maximum: int


@dataclass(frozen=True)
class ScalingPlan:
    """One scalable target: its limits and policies."""

    id: str
    resource_id: str
    dimension: str
    minimum: int
    maximum: int
    scaling: Scaling
    """The settings that hold the cooldowns."""
    tracked: tuple[Tracking, ...]
    stepped: tuple[Stepping, ...]
    scheduled: tuple[ScheduledLimits, ...]


def scaling_plans(monitored: Monitored, options: ServingOptions) -> tuple[ScalingPlan, ...]:
    """Return the scaling plans: of the copies, or of all variants if any has a variable instance count.

    SageMaker keeps the scaled counts of all variants across updates or of none. So a fixed count next to a
    variable one is registered too, with equal limits and no policy.
    """
    if monitored.component and options.components:
        copies = options.components
        varies = copies.min_copies < copies.max_copies or options.scaling.schedules
        return (_copies(monitored, monitored.component, copies, options.scaling),) if varies else ()
    if not any(variant.scaling.varies for variant in monitored.variants):
        return ()
    return tuple(
        _machines(monitored, variant, options) for variant in monitored.variants if _registers(variant)
    )


def _registers(variant: MonitoredVariant) -> bool:
    # SageMaker does not scale burstable instances; their count is fixed.
    return not variant.instance.family.burstable


def _machines(monitored: Monitored, variant: MonitoredVariant, options: ServingOptions) -> ScalingPlan:
    scaling = variant.scaling
    # The variant's own measures, with the defaults of the endpoint's mode.
    measures = options.model_copy(update={"scaling": scaling}).measures if scaling.varies else {}
    stepped = [*_steps(monitored, variant, scaling)] if scaling.varies else []
    if monitored.asynchronous and scaling.lowest == 0:
        stepped.append(_wake_for_backlog(monitored, variant))
    return ScalingPlan(
        id=variant.name,
        resource_id=f"endpoint/{monitored.endpoint_name}/variant/{variant.name}",
        dimension="sagemaker:variant:DesiredInstanceCount",
        minimum=scaling.min_instances,
        maximum=scaling.max_instances,
        scaling=scaling,
        tracked=tuple(_tracking(monitored, variant, name, value) for name, value in measures.items()),
        stepped=tuple(stepped),
        scheduled=tuple(_scheduled(scaling.schedules)),
    )


def _copies(monitored: Monitored, component: str, copies: Components, scaling: Scaling) -> ScalingPlan:
    lowest = min([copies.min_copies, *(schedule.min for schedule in scaling.schedules.values())])
    stepped = [*_steps(monitored, monitored.main, scaling)]
    if lowest == 0:
        stepped.append(_wake_for_failures(monitored, scaling))
    return ScalingPlan(
        id="copies",
        resource_id=f"inference-component/{component}",
        dimension="sagemaker:inference-component:DesiredCopyCount",
        minimum=copies.min_copies,
        maximum=copies.max_copies,
        scaling=scaling,
        tracked=tuple(_copy_tracking(copies, scaling)),
        stepped=tuple(stepped),
        scheduled=tuple(_scheduled(scaling.schedules)),
    )


def _tracking(monitored: Monitored, variant: MonitoredVariant, measure: str, value: float) -> Tracking:
    predefined = {
        "invocations_per_instance": "SageMakerVariantInvocationsPerInstance",
        "concurrent_requests_per_model": "SageMakerVariantConcurrentRequestsPerModelHighResolution",
    }
    if measure in predefined:
        return Tracking(measure, value, predefined=predefined[measure])
    if measure == "gpu_utilization_percent":
        metric = machine_metric(monitored, variant, "GPUUtilization")
        return Tracking(measure, value * variant.instance.gpus, metric=metric)
    return Tracking(measure, value, metric=queue_metric(monitored, "ApproximateBacklogSizePerInstance"))


def _copy_tracking(copies: Components, scaling: Scaling) -> Iterator[Tracking]:
    invocations, concurrent = copies.invocations_per_copy, copies.concurrent_requests_per_copy
    if invocations is None and concurrent is None and scaling.steps is None:
        invocations = DEFAULT_INVOCATIONS_PER_INSTANCE
    if invocations is not None:
        yield Tracking(
            "invocations_per_copy", invocations, predefined="SageMakerInferenceComponentInvocationsPerCopy"
        )
    if concurrent is not None:
        yield Tracking(
            "concurrent_requests_per_copy",
            concurrent,
            predefined="SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
        )


def _steps(monitored: Monitored, variant: MonitoredVariant, scaling: Scaling) -> Iterator[Stepping]:
    steps = scaling.steps
    if steps is None:
        return
    series, factor = _stepped_series(monitored, variant, steps.metric)
    bounds = [step.above * factor for step in steps.scale_out]
    first = bounds[0]
    yield Stepping(
        "scale-out",
        tuple(
            Adjustment(step.add, lower=lower - first, upper=None if upper is None else upper - first)
            for step, lower, upper in zip(steps.scale_out, bounds, [*bounds[1:], None], strict=True)
        ),
        scaling.scale_out_cooldown_s,
        replace(_alarm(monitored, variant, "scale-out", series, first), comparison="GreaterThanThreshold"),
    )
    yield Stepping(
        "scale-in",
        (Adjustment(-steps.scale_in.remove, upper=0),),
        scaling.scale_in_cooldown_s,
        replace(
            _alarm(monitored, variant, "scale-in", series, steps.scale_in.below * factor),
            comparison="LessThanThreshold",
            periods=_QUIET_MINUTES,
            # Without requests there is no data: zero load. Instances always have a utilization, so no data
            # there is a gap in the telemetry, which removes nothing.
            expression=None if steps.metric in _UTILIZATION else "FILL(load, 0)",
        ),
    )


def _stepped_series(
    monitored: Monitored, variant: MonitoredVariant, metric: StepMetric
) -> tuple[Series, float]:
    """Return the metric that steps use, and how much of it is one unit in the file."""
    component = monitored.component
    if metric == "backlog_per_instance":
        return Series(queue_metric(monitored, "ApproximateBacklogSizePerInstance"), "Average"), 1
    if metric == "invocations_per_instance":
        name = "InvocationsPerCopy" if component else "InvocationsPerInstance"
        return Series(request_metric(monitored, variant, name), "Sum"), 1
    if metric == "concurrent_requests_per_model":
        name = "ConcurrentRequestsPerCopy" if component else "ConcurrentRequestsPerModel"
        # SageMaker publishes only the minimum and the maximum per minute.
        return Series(request_metric(monitored, variant, name), "Maximum"), 1
    part = "CPU" if metric == "cpu_utilization_percent" else "GPU"
    if component:
        return Series(copy_metric(component, f"{part}UtilizationNormalized"), "Average"), 1
    units = variant.instance.vcpus if part == "CPU" else variant.instance.gpus
    return Series(machine_metric(monitored, variant, f"{part}Utilization"), "Average"), units


def _wake_for_backlog(monitored: Monitored, variant: MonitoredVariant) -> Stepping:
    """Add the first instance: target tracking divides by the number of instances and cannot scale out from
    0."""
    backlog = Series(queue_metric(monitored, "HasBacklogWithoutCapacity"), "Average")
    return _wake(variant.scaling, replace(_alarm(monitored, variant, "wake-up", backlog, 1), periods=2))


def _wake_for_failures(monitored: Monitored, scaling: Scaling) -> Stepping:
    """Add the first copy: the first request after an idle period fails and triggers the scale-out."""
    failures = Series(request_metric(monitored, monitored.main, "NoCapacityInvocationFailures"), "Sum")
    return _wake(scaling, _alarm(monitored, monitored.main, "wake-up", failures, 1))


def _wake(scaling: Scaling, alarm: AlarmPlan) -> Stepping:
    cooldown = max(_STARTING_S, scaling.scale_out_cooldown_s)
    return Stepping("wake-up", (Adjustment(1, lower=0),), cooldown, alarm)


def _alarm(
    monitored: Monitored, variant: MonitoredVariant, purpose: str, series: Series, threshold: float
) -> AlarmPlan:
    return AlarmPlan(
        id=purpose,
        name=naming.alarm_name(monitored.endpoint_name, variant.name, purpose),
        description=f"{monitored.endpoint_name}: scaling alarm, no action needed",
        threshold=threshold,
        series={"load": series},
        period_s=_MINUTE,
    )


def _scheduled(schedules: Mapping[str, Schedule]) -> Iterator[ScheduledLimits]:
    for name, schedule in schedules.items():
        hour, minute = schedule.at.split(":")
        yield ScheduledLimits(
            name=name,
            schedule=f"cron({int(minute)} {int(hour)} ? * {','.join(_days(schedule.days))} *)",
            timezone=schedule.timezone,
            minimum=schedule.min,
            maximum=schedule.max,
        )


def _days(text: str) -> list[str]:
    """Return each weekday once: a cron week begins on Sunday, so the range MON-SUN would be invalid."""
    days: set[str] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        start = DAYS.index(first)
        length = (DAYS.index(last or first) - start) % len(DAYS) + 1
        days.update(DAYS[(start + offset) % len(DAYS)] for offset in range(length))
    return [day for day in DAYS if day in days]
