"""`promotion:` of an environment: the source of its artifacts, and the promotion gates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.naming import Name
from tritonstack.base.yaml import Record, check_distinct
from tritonstack.files.endpoint.scaling import DAYS, Day, check_timezone

ClockTime = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class ChangeWindow(Record):
    """A time window in which promotions are allowed."""

    days: Annotated[tuple[Day, ...], Field(min_length=1), AfterValidator(check_distinct)] = DAYS[:5]
    start: ClockTime
    end: ClockTime
    timezone: Annotated[str, AfterValidator(check_timezone)] = "UTC"

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> ChangeWindow:
        if self.end <= self.start:
            raise ValueError(f"expected start before end on the same day, got {self.start} to {self.end}")
        return self

    def is_open(self, now: datetime) -> bool:
        """Check whether a time is in the window."""
        local_time = now.astimezone(ZoneInfo(self.timezone))
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        return DAYS[local_time.weekday()] in self.days and start <= local_time.time() < end


class PerformanceObjective(Record):
    """What a load test in the source environment must show for each artifact of an endpoint."""

    rate_per_instance: Annotated[float, Field(gt=0)]
    """Requests per second that one instance must answer."""
    p99_ms: Annotated[float, Field(gt=0)]
    """Maximum latency at the 99th percentile at that rate."""
    max_failed_percent: Annotated[float, Field(ge=0, le=100)] = 0.1
    """Maximum percentage of failed requests at that rate."""
    max_age_days: Annotated[float, Field(gt=0)] = 14
    """Maximum age of the load test."""

    @property
    def description(self) -> str:
        """Return the rate and the latency."""
        rate = f"{self.rate_per_instance:g} requests per second and instance"
        return f"{rate} with a p99 latency of {self.p99_ms:g} ms"


class PromotionSpec(Record):
    """Requirements for artifacts before this environment runs them."""

    source: Name
    """The environment to promote from."""
    soaked_hours: Annotated[float, Field(ge=0)] = 0
    """Minimum time deployed there."""
    verified: bool = True
    """Whether `tritonstack verify` must have passed there since the deployment, on each of its endpoints."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Minimum cosine similarity to the framework, measured by the build."""
    max_latency_p99_ms: Annotated[float, Field(gt=0)] | None = None
    """Maximum latency of one request at the 99th percentile, measured by the build."""
    performance: Mapping[Name, PerformanceObjective] = Field(default_factory=dict)
    """Objectives by endpoint of this environment, shown by `tritonstack bench --record` in the source."""
    allow_unverified: Mapping[Name, Annotated[str, Field(min_length=10)]] = Field(default_factory=dict)
    """Models that may be promoted without proof of correct outputs, each with the reason."""
    windows: tuple[ChangeWindow, ...] = ()
    """When promotions are allowed; always if empty."""

    def is_open(self, now: datetime) -> bool:
        """Check whether promotions are allowed at a time."""
        return not self.windows or any(window.is_open(now) for window in self.windows)
