"""Instance counts of an endpoint: limits, scaling metrics, and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal, get_args
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.naming import Name
from tritonstack.base.yaml import Record, matching, suggest

Day = Literal["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
DAYS: tuple[Day, ...] = get_args(Day)
DEFAULT_INVOCATIONS_PER_INSTANCE = 1000
DEFAULT_BACKLOG_PER_INSTANCE = 5

StepMetric = Literal[
    "invocations_per_instance",
    "concurrent_requests_per_model",
    "cpu_utilization_percent",
    "gpu_utilization_percent",
    "backlog_per_instance",
]

Capacity = Annotated[int, Field(ge=0, le=1000)]
Percent = Annotated[float, Field(gt=0, le=100)]


TimeOfDay = Annotated[
    str, matching(r"(?:[01]\d|2[0-3]):[0-5]\d", "invalid time of day {}; write it as 08:30")
]


def _check_days(text: str) -> str:
    parts = [part.split("-") for part in text.split(",")]
    if any(len(part) > 2 or not set(part) <= set(DAYS) for part in parts):
        raise ValueError(f"invalid days {text!r}; write for example MON-FRI, or SAT,SUN")
    return text


@cache
def _timezones() -> frozenset[str]:
    """Return all time zones, cached because Python reads them from files."""
    return frozenset(available_timezones())


def check_timezone(text: str) -> str:
    """Check an IANA time zone name."""
    if text not in _timezones():
        remedy = suggest(text, _timezones(), "write one such as Europe/Berlin")
        raise ValueError(f"unknown time zone {text!r}; {remedy}")
    return text


def check_limits(record: Record, low: str, high: str) -> None:
    """Raise ValueError if a maximum is below its minimum."""
    least, most = getattr(record, low), getattr(record, high)
    if most < least:
        raise ValueError(f"{high} ({most}) is below {low} ({least}); raise {high} or lower {low}")


class Schedule(Record):
    """Different limits from a time of day on, until the next schedule."""

    at: TimeOfDay
    """Time of day, for example 08:30."""
    days: Annotated[str, AfterValidator(_check_days)] = "MON-SUN"
    """Days of the week, for example MON-FRI."""
    timezone: Annotated[str, AfterValidator(check_timezone)] = "UTC"
    """Time zone of `at`, for example Europe/Berlin."""
    min: Capacity
    """Minimum number of instances (or inference component copies)."""
    max: Capacity
    """Maximum number of instances (or copies)."""

    @model_validator(mode="after")
    def _ordered(self) -> Schedule:
        check_limits(self, "min", "max")
        return self


class StepOut(Record):
    """Add instances if a metric is above a threshold."""

    above: Annotated[float, Field(gt=0)]
    """Threshold of the metric."""
    add: Annotated[int, Field(ge=1, le=100)]
    """Number of instances to add."""


class StepIn(Record):
    """Remove instances if a metric is below a threshold."""

    below: Annotated[float, Field(gt=0)]
    """Threshold of the metric."""
    remove: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of instances to remove."""


class StepScaling(Record):
    """Step scaling, for loads that target tracking follows too slowly or too fast."""

    metric: StepMetric
    """Metric to evaluate, averaged over one minute."""
    scale_out: Annotated[tuple[StepOut, ...], Field(min_length=1, max_length=10)]
    """Scale-out steps, lowest threshold first."""
    scale_in: StepIn
    """The scale-in step."""

    @model_validator(mode="after")
    def _ordered(self) -> StepScaling:
        bounds = [step.above for step in self.scale_out]
        if bounds != sorted(set(bounds)):
            raise ValueError("the thresholds of scale_out must increase; sort them")
        if self.scale_in.below >= bounds[0]:
            raise ValueError(
                f"scale_in.below ({self.scale_in.below:g}) is not below the first threshold of scale_out "
                f"({bounds[0]:g}), so the instance count would oscillate; lower it"
            )
        return self


class Scaling(Record):
    """Instance limits, and the metrics that scaling follows."""

    min_instances: Capacity = 1
    """Minimum number of instances; 0 only for asynchronous endpoints and inference components."""
    max_instances: Annotated[int, Field(ge=1, le=1000)] = 2
    """Maximum number of instances; equal to min_instances for a fixed number."""
    invocations_per_instance: Annotated[int, Field(ge=1)] | None = None
    """Target requests per minute and instance: measured capacity × a safety factor. Default: 1000 if no
    metric is given."""
    concurrent_requests_per_model: Annotated[float, Field(gt=0)] | None = None
    """Target concurrent requests per model, measured every 10 seconds: the fastest metric."""
    gpu_utilization_percent: Percent | None = None
    """Target GPU utilization, averaged over an instance's GPUs."""
    backlog_per_instance: Annotated[float, Field(gt=0)] | None = None
    """Target queued requests per instance of an asynchronous endpoint; default: 5 if no metric is given."""
    steps: StepScaling | None = None
    """Step scaling, in addition to target tracking or instead of it."""
    schedules: Mapping[Name, Schedule] = Field(default_factory=dict)
    """Limits by time of day, for example for office hours."""
    scale_out_cooldown_s: Annotated[int, Field(ge=0, le=3600)] = 60
    """Cooldown after adding instances."""
    scale_in_cooldown_s: Annotated[int, Field(ge=0, le=3600)] = 300
    """Cooldown after removing instances."""

    @property
    def varies(self) -> bool:
        """Whether the instance count can change, so that a scalable target is needed.

        SageMaker rejects instance type changes of a registered scalable target.
        """
        return self.min_instances < self.max_instances or bool(self.schedules)

    @property
    def first_instances(self) -> int:
        """Initial instance count of a new endpoint, at least one."""
        return max(self.min_instances, 1)

    @property
    def lowest(self) -> int:
        """The minimum over all limits and schedules."""
        return min([self.min_instances, *(schedule.min for schedule in self.schedules.values())])

    @property
    def highest(self) -> int:
        """The maximum over all limits and schedules."""
        return max([self.max_instances, *(schedule.max for schedule in self.schedules.values())])

    @property
    def measures(self) -> tuple[str, ...]:
        """The target-tracking metrics that are set."""
        names = (
            "invocations_per_instance",
            "concurrent_requests_per_model",
            "gpu_utilization_percent",
            "backlog_per_instance",
        )
        return tuple(name for name in names if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _ordered(self) -> Scaling:
        check_limits(self, "min_instances", "max_instances")
        return self
