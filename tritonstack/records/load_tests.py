"""Load tests as events record them: what was sent to an endpoint, and what its callers got."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tritonstack.base.yaml import Record

Measured = Annotated[float, Field(ge=0)]


class RecordedLevel(Record):
    """One level of load."""

    load: str
    """What was sent, such as `open loop, 40 per second at random`."""
    offered_per_s: Measured | None = None
    """Requests that were due per second; None for closed loops, which slow down with the endpoint."""
    is_trace: bool
    """Whether the rate changed during the level; `offered_per_s` is then the mean."""
    lowest_instances: Annotated[int, Field(ge=0)]
    """The lowest number of instances that answered; 0 if the endpoint started from none."""
    highest_instances: Annotated[int, Field(ge=1)]
    answered_per_s: Measured
    answers: Annotated[int, Field(ge=0)]
    """Answered requests after the warm-up."""
    failed_percent: Measured
    p50_ms: Measured | None = None
    p99_ms: Measured | None = None
    """None if there were too few answers for a 99th percentile."""
    steady: bool
    """Whether latency neither rose nor fell after the warm-up."""


class LoadTest(Record):
    """A load test of one artifact on one instance type."""

    instance_type: str
    real_instances: bool
    """Whether that type answered, on AWS; instances of the local cloud are processes of one machine."""
    levels: tuple[RecordedLevel, ...]
