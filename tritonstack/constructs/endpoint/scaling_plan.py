"""How the machines of an endpoint's variants, or the copies of its inference component, are scaled.

Plain values, which Application Auto Scaling's resources are made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tritonstack.base import naming
from tritonstack.constructs.monitoring.alarm_plan import AlarmPlan
from tritonstack.constructs.monitoring.metrics import (
    Metric,
    Series,
    copy_metric,
    machine_metric,
    queue_metric,
    request_metric,
)
from tritonstack.constructs.monitoring.monitored import Watched, WatchedVariant
from tritonstack.spec.endpoints.endpoint import Components, ServingOptions
from tritonstack.spec.endpoints.scaling import (
    DAYS,
    DEFAULT_INVOCATIONS_PER_INSTANCE,
    Scaling,
    Schedule,
    StepMetric,
)

_MINUTE = 60
_QUIET_MINUTES = 5
"""A load has to be low for so long before machines go: a lull is no end."""
_STARTING_S = 300
"""A machine takes minutes to start, and its alarm rings as long: wait, or one would come each minute."""


@dataclass(frozen=True)
class Tracking:
    """Keep one measure at a value."""

    measure: str
    target: float
    predefined: str | None = None
    """Application Auto Scaling's own name of the metric, where it has one."""
    metric: Metric | None = None
    """Otherwise the metric, averaged."""


@dataclass(frozen=True)
class Adjustment:
    """How much to add, where the metric is so far from the alarm's threshold."""

    change: int
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Stepping:
    """Change the number by steps when an alarm rings."""

    id: str
    adjustments: tuple[Adjustment, ...]
    cooldown_s: int
    alarm: AlarmPlan


@dataclass(frozen=True)
class ScheduledLimits:
    """Other limits from a time on."""

    name: str
    schedule: str
    timezone: str
    minimum: int
    maximum: int


@dataclass(frozen=True)
class ScalingPlan:
    """One thing that is scaled: its limits, and what its number follows."""

    id: str
    resource_id: str
    dimension: str
    minimum: int
    maximum: int
    scaling: Scaling
    """Where the cool-downs stand."""
    tracked: tuple[Tracking, ...]
    stepped: tuple[Stepping, ...]
    scheduled: tuple[ScheduledLimits, ...]


def scaling_plans(watched: Watched, options: ServingOptions) -> tuple[ScalingPlan, ...]:
    """What of an endpoint is scaled: its copies, or its variants if the number of machines of one varies.

    Updates then keep the numbers of all, for SageMaker keeps those of all variants or of none. So a fixed
    number beside one that varies is registered too, with nothing to follow: its limits alone make it hold.
    """
    if watched.component and options.components:
        copies = options.components
        varies = copies.min_copies < copies.max_copies or options.scaling.schedules
        return (_copies(watched, watched.component, copies, options.scaling),) if varies else ()
    if not any(variant.scaling.varies for variant in watched.variants):
        return ()
    return tuple(_machines(watched, variant, options) for variant in watched.variants if _registers(variant))


def _registers(variant: WatchedVariant) -> bool:
    # SageMaker registers no burstable machines; their number is fixed.
    return not variant.instance.family.burstable


def _machines(watched: Watched, variant: WatchedVariant, options: ServingOptions) -> ScalingPlan:
    scaling = variant.scaling
    # The variant's own measures, with the defaults that hold for the endpoint's mode.
    measures = options.model_copy(update={"scaling": scaling}).measures if scaling.varies else {}
    stepped = [*_steps(watched, variant, scaling)] if scaling.varies else []
    if watched.asynchronous and scaling.lowest == 0:
        stepped.append(_wake_for_backlog(watched, variant))
    return ScalingPlan(
        id=variant.name,
        resource_id=f"endpoint/{watched.endpoint_name}/variant/{variant.name}",
        dimension="sagemaker:variant:DesiredInstanceCount",
        minimum=scaling.min_instances,
        maximum=scaling.max_instances,
        scaling=scaling,
        tracked=tuple(_tracking(watched, variant, name, value) for name, value in measures.items()),
        stepped=tuple(stepped),
        scheduled=tuple(_scheduled(scaling.schedules)),
    )


def _copies(watched: Watched, component: str, copies: Components, scaling: Scaling) -> ScalingPlan:
    lowest = min([copies.min_copies, *(schedule.min for schedule in scaling.schedules.values())])
    stepped = [*_steps(watched, watched.main, scaling)]
    if lowest == 0:
        stepped.append(_wake_for_failures(watched, scaling))
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


def _tracking(watched: Watched, variant: WatchedVariant, measure: str, value: float) -> Tracking:
    predefined = {
        "invocations_per_instance": "SageMakerVariantInvocationsPerInstance",
        "concurrent_requests_per_model": "SageMakerVariantConcurrentRequestsPerModelHighResolution",
    }
    if measure in predefined:
        return Tracking(measure, value, predefined=predefined[measure])
    if measure == "gpu_utilization_percent":
        metric = machine_metric(watched, variant, "GPUUtilization")
        return Tracking(measure, value * variant.instance.gpus, metric=metric)
    return Tracking(measure, value, metric=queue_metric(watched, "ApproximateBacklogSizePerInstance"))


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


def _steps(watched: Watched, variant: WatchedVariant, scaling: Scaling) -> Iterator[Stepping]:
    steps = scaling.steps
    if steps is None:
        return
    series, factor = _stepped_series(watched, variant, steps.metric)
    bounds = [step.above * factor for step in steps.scale_out]
    first = bounds[0]
    yield Stepping(
        "scale-out",
        tuple(
            Adjustment(step.add, lower=lower - first, upper=None if upper is None else upper - first)
            for step, lower, upper in zip(steps.scale_out, bounds, [*bounds[1:], None], strict=True)
        ),
        scaling.scale_out_cooldown_s,
        replace(_alarm(watched, variant, "scale-out", series, first), comparison="GreaterThanThreshold"),
    )
    yield Stepping(
        "scale-in",
        (Adjustment(-steps.scale_in.remove, upper=0),),
        scaling.scale_in_cooldown_s,
        replace(
            _alarm(watched, variant, "scale-in", series, steps.scale_in.below * factor),
            comparison="LessThanThreshold",
            periods=_QUIET_MINUTES,
            # No request, no data: such a load is none.
            expression="FILL(load, 0)",
        ),
    )


def _stepped_series(watched: Watched, variant: WatchedVariant, metric: StepMetric) -> tuple[Series, float]:
    """The metric that steps look at, and what one of the file's units is in it."""
    component = watched.component
    if metric == "backlog_per_instance":
        return Series(queue_metric(watched, "ApproximateBacklogSizePerInstance"), "Average"), 1
    if metric == "invocations_per_instance":
        name = "InvocationsPerCopy" if component else "InvocationsPerInstance"
        return Series(request_metric(watched, variant, name), "Sum"), 1
    if metric == "concurrent_requests_per_model":
        name = "ConcurrentRequestsPerCopy" if component else "ConcurrentRequestsPerModel"
        # The minute's least and its most are all that SageMaker publishes of it.
        return Series(request_metric(watched, variant, name), "Maximum"), 1
    part = "CPU" if metric == "cpu_utilization_percent" else "GPU"
    if component:
        return Series(copy_metric(component, f"{part}UtilizationNormalized"), "Average"), 1
    units = variant.instance.vcpus if part == "CPU" else variant.instance.gpus
    return Series(machine_metric(watched, variant, f"{part}Utilization"), "Average"), units


def _wake_for_backlog(watched: Watched, variant: WatchedVariant) -> Stepping:
    """Target tracking divides by the number of machines: it cannot lead out of zero."""
    backlog = Series(queue_metric(watched, "HasBacklogWithoutCapacity"), "Average")
    return _wake(variant.scaling, replace(_alarm(watched, variant, "wake-up", backlog, 1), periods=2))


def _wake_for_failures(watched: Watched, scaling: Scaling) -> Stepping:
    """The same for copies: the first request after a quiet time fails, and is the call to get up."""
    failures = Series(request_metric(watched, watched.main, "NoCapacityInvocationFailures"), "Sum")
    return _wake(scaling, _alarm(watched, watched.main, "wake-up", failures, 1))


def _wake(scaling: Scaling, alarm: AlarmPlan) -> Stepping:
    cooldown = max(_STARTING_S, scaling.scale_out_cooldown_s)
    return Stepping("wake-up", (Adjustment(1, lower=0),), cooldown, alarm)


def _alarm(
    watched: Watched, variant: WatchedVariant, what: str, series: Series, threshold: float
) -> AlarmPlan:
    return AlarmPlan(
        name=naming.alarm_name(watched.endpoint_name, variant.name, what),
        description=f"{watched.endpoint_name}: moves scaling, and nobody need heed it",
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
    """Every day that is meant, each once: a cron week begins on Sunday, so MON-SUN would run backwards."""
    meant: set[str] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        start = DAYS.index(first)
        length = (DAYS.index(last or first) - start) % len(DAYS) + 1
        meant.update(DAYS[(start + offset) % len(DAYS)] for offset in range(length))
    return [day for day in DAYS if day in meant]
