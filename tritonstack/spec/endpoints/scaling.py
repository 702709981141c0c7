"""How many machines an endpoint has: the limits, what they follow, and when they change by the clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import Record, closest
from tritonstack.base.naming import Name

DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
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


def _check_time(text: str) -> str:
    if not re.fullmatch(r"(?:[01]\d|2[0-3]):[0-5]\d", text):
        raise ValueError(f"{text!r} is not a time of day; write it as 08:30")
    return text


def _check_days(text: str) -> str:
    parts = [part.split("-") for part in text.split(",")]
    if any(len(part) > 2 or not set(part) <= set(DAYS) for part in parts):
        raise ValueError(f"{text!r} names no days; write MON-FRI, or SAT,SUN")
    return text


@cache
def _timezones() -> frozenset[str]:
    """Every time zone there is; Python looks through a folder of files for them."""
    return frozenset(available_timezones())


def check_timezone(text: str) -> str:
    """A time zone as the world names it."""
    if text not in _timezones():
        suggestion = closest(text, _timezones())
        raise ValueError(
            f"there is no time zone {text!r}"
            + (f"; did you mean '{suggestion}'?" if suggestion else "; zones read like Europe/Berlin")
        )
    return text


class Schedule(Record):
    """From a time of day on, other limits hold, until another schedule changes them."""

    at: Annotated[str, AfterValidator(_check_time)]
    """Time of day, for example 08:30."""
    days: Annotated[str, AfterValidator(_check_days)] = "MON-SUN"
    """Days of the week, for example MON-FRI."""
    timezone: Annotated[str, AfterValidator(check_timezone)] = "UTC"
    """The time zone that `at` is meant in, for example Europe/Berlin."""
    min: Capacity
    """Never fewer machines (copies, where an endpoint scales inference components)."""
    max: Capacity
    """Never more of them."""

    @model_validator(mode="after")
    def _ordered(self) -> Schedule:
        if self.max < self.min:
            raise ValueError(f"max ({self.max}) is below min ({self.min}); raise max or lower min")
        return self


class StepOut(Record):
    """Add machines when a metric is above a bound."""

    above: Annotated[float, Field(gt=0)]
    """The metric's bound."""
    add: Annotated[int, Field(ge=1, le=100)]
    """How many machines to add."""


class StepIn(Record):
    """Remove machines when a metric is below a bound."""

    below: Annotated[float, Field(gt=0)]
    """The metric's bound."""
    remove: Annotated[int, Field(ge=1, le=100)] = 1
    """How many machines to remove."""


class StepScaling(Record):
    """Scaling in steps, for loads that target tracking follows too slowly or too eagerly."""

    metric: StepMetric
    """What the steps look at, averaged over a minute."""
    scale_out: Annotated[tuple[StepOut, ...], Field(min_length=1, max_length=10)]
    """Steps upwards, the lowest bound first."""
    scale_in: StepIn
    """The step downwards."""

    @model_validator(mode="after")
    def _ordered(self) -> StepScaling:
        bounds = [step.above for step in self.scale_out]
        if bounds != sorted(set(bounds)):
            raise ValueError("the bounds of scale_out must rise from step to step; sort them")
        if self.scale_in.below >= bounds[0]:
            raise ValueError(
                f"scale_in.below ({self.scale_in.below:g}) is not under the first bound of scale_out "
                f"({bounds[0]:g}), so machines would come and go without end; lower it"
            )
        return self


class Scaling(Record):
    """The limits, and the measures that the number of machines follows between them."""

    min_instances: Capacity = 1
    """Never fewer; 0 is for asynchronous endpoints and inference components."""
    max_instances: Annotated[int, Field(ge=1, le=1000)] = 2
    """Never more; equal to min_instances: the number is fixed and nothing scales it."""
    invocations_per_instance: Annotated[int, Field(ge=1)] | None = None
    """Requests a minute one machine is meant to carry: measured capacity × a safety factor. 1000 if no
    measure is given at all."""
    concurrent_requests_per_model: Annotated[float, Field(gt=0)] | None = None
    """Requests in flight that one model is meant to carry; measured every 10 seconds: the quickest."""
    gpu_utilization_percent: Percent | None = None
    """How busy the GPUs are meant to be, averaged over all of a machine's."""
    backlog_per_instance: Annotated[float, Field(gt=0)] | None = None
    """Requests waiting for each machine of an asynchronous endpoint; 5 if no measure is given at all."""
    steps: StepScaling | None = None
    """Scaling in steps, beside or instead of the measures above."""
    schedules: Mapping[Name, Schedule] = Field(default_factory=dict)
    """Other limits by the clock: office hours, quiet nights."""
    scale_out_cooldown_s: Annotated[int, Field(ge=0, le=3600)] = 60
    """Wait after adding machines."""
    scale_in_cooldown_s: Annotated[int, Field(ge=0, le=3600)] = 300
    """Wait after removing machines."""

    @property
    def varies(self) -> bool:
        """Whether the number of machines changes by itself; one that is fixed needs no registration.

        SageMaker refuses to change the instance type of what is registered for scaling.
        """
        return self.min_instances < self.max_instances or bool(self.schedules)

    @property
    def first_instances(self) -> int:
        """How many machines a new endpoint starts with: an endpoint cannot begin with none."""
        return max(self.min_instances, 1)

    @property
    def lowest(self) -> int:
        """The smallest number that any limit or schedule allows."""
        return min([self.min_instances, *(schedule.min for schedule in self.schedules.values())])

    @property
    def highest(self) -> int:
        """The largest number that any limit or schedule allows."""
        return max([self.max_instances, *(schedule.max for schedule in self.schedules.values())])

    @property
    def measures(self) -> tuple[str, ...]:
        """The target-tracking measures that are given."""
        names = (
            "invocations_per_instance",
            "concurrent_requests_per_model",
            "gpu_utilization_percent",
            "backlog_per_instance",
        )
        return tuple(name for name in names if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _ordered(self) -> Scaling:
        if self.max_instances < self.min_instances:
            raise ValueError(
                f"max_instances ({self.max_instances}) is below min_instances ({self.min_instances}); "
                "raise max_instances or lower min_instances"
            )
        return self
