"""`promotion:` of an environment: where its artifacts come from, and the gates on their way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import Record, check_distinct
from tritonstack.base.naming import Name
from tritonstack.spec.endpoints.scaling import check_timezone

Day = Literal["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
DAYS: tuple[Day, ...] = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
ClockTime = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class ChangeWindow(Record):
    """When promotions are allowed."""

    days: Annotated[tuple[Day, ...], Field(min_length=1), AfterValidator(check_distinct)] = DAYS[:5]
    start: ClockTime
    end: ClockTime
    timezone: Annotated[str, AfterValidator(check_timezone)] = "UTC"

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> ChangeWindow:
        if self.end <= self.start:
            raise ValueError(f"a window ends after it starts, on the same day: {self.start} to {self.end}")
        return self

    def is_open(self, now: datetime) -> bool:
        """Whether a moment lies in it."""
        there = now.astimezone(ZoneInfo(self.timezone))
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        return DAYS[there.weekday()] in self.days and start <= there.time() < end


class PromotionSpec(Record):
    """What an artifact has to have shown before this environment runs it."""

    source: Name
    """The environment that its artifacts come from."""
    soaked_hours: Annotated[float, Field(ge=0)] = 0
    """How long it has to have been deployed there."""
    verified: bool = True
    """Whether `tritonstack verify` has to have passed there since it was deployed."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Lowest cosine similarity to the framework that its build may have measured."""
    max_latency_p99_ms: Annotated[float, Field(gt=0)] | None = None
    """Longest time that one request of its build's check may have taken, at the 99th percentile."""
    allow_unverified: Mapping[Name, Annotated[str, Field(min_length=10)]] = Field(default_factory=dict)
    """Models that may be promoted although nothing proves their answers right, each with the reason."""
    windows: tuple[ChangeWindow, ...] = ()
    """When it may be promoted; always if there are none."""

    def is_open(self, now: datetime) -> bool:
        """Whether promotions are allowed at a moment."""
        return not self.windows or any(_open(self.windows, now))


def _open(windows: Iterable[ChangeWindow], now: datetime) -> Iterable[bool]:
    return (window.is_open(now) for window in windows)
