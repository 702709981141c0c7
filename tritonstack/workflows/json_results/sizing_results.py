"""Results of commands that measure or simulate load."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tritonstack.operations.loads.comparing import RunComparison
from tritonstack.workflows.json_results.shape import Shape
from tritonstack.workflows.sizing.tuned_settings import SkippedSetting


class GeneratorJson(Shape):
    """The load of the machine that sends the requests."""

    processors: float
    late_p99_ms: float


class LoadRunJson(Shape):
    """The figures of one load."""

    load: str
    seconds: float
    warm_up_s: float
    steady: bool
    answered_per_s: float
    failed_share: float
    errors: dict[str, int]
    mean_ms: float | None
    latency_ms: dict[str, float | None]
    """Percentile -> milliseconds."""
    generator: GeneratorJson


class BenchJson(Shape):
    """A load test."""

    format: int
    environment: str
    endpoint: str
    model: str
    digest: str | None
    instance: str
    began: str
    real_instances: bool | None
    """Null in results of versions that did not record it."""
    machine: str
    """The machine that ran the local cloud; empty on AWS."""
    runs: list[LoadRunJson]
    comparisons: list[RunComparison]
    recorded: str | None
    """Key of the event."""


class MeasuredJson(Shape):
    """The figures of a configuration."""

    settings: dict[str, Any] = Field(default_factory=dict)
    load: float = 0
    """Users or rate, in curves."""
    answered_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    failed_share: float
    violation: str | None


class TuneJson(Shape):
    """A search for the settings of a model."""

    model: str
    objective: str
    grid: int
    """Number of possible configurations."""
    most_runs: int
    seconds: float
    server: str
    cores: Any
    runs: list[MeasuredJson]
    now: MeasuredJson
    tuned: MeasuredJson
    meets: bool
    curves: dict[str, list[MeasuredJson]]
    skipped: list[SkippedSetting]
    diff: str
    uneditable: str | None
    """Why `--write` cannot change the files."""


class ScalingChangeJson(Shape):
    """A change of the number of instances."""

    at_s: float
    before: float
    after: float
    cause: str


class ScalingSliceJson(Shape):
    """A slice of a simulation."""

    at_s: float
    requests: float
    lost: float
    desired: float
    in_service: float
    instances: float
    p50_ms: float | None
    p99_ms: float | None


class ScalingRunJson(Shape):
    """A simulated scaling policy."""

    each_request: bool
    """False if queues are approximated."""
    requests: float
    lost: float
    waiting: float
    """Requests that wait at the end."""
    lost_share: float
    p50_ms: float | None
    p99_ms: float | None
    hours: float
    instance_hours: float
    most_instances: float
    failed_launches: int
    cost: float | None
    cost_per_month: float | None
    changes: list[ScalingChangeJson]
    slice_s: float
    slices: list[ScalingSliceJson]


class ProposalOfScalingJson(Shape):
    """A cheaper or safer policy."""

    objective: str
    changes: dict[str, Any]
    diff: str
    policies_simulated: int
    uneditable: str | None = None
    """Why `--write` cannot change the file."""
    result: ScalingRunJson


class RecordedMinuteJson(Shape):
    """A minute in CloudWatch."""

    requests: float
    errors: float
    instances: float | None
    p50_ms: float | None
    p99_ms: float | None


class BackTestJson(Shape):
    """The simulation compared with CloudWatch."""

    minutes_compared: int
    instances_within_one: float
    instances_mean_difference: float
    recorded_instance_hours: float
    recorded_p50_ms: float | None
    recorded_p99_ms: float | None
    p99_ratio: float | None
    recorded_errors: int
    recorded: list[RecordedMinuteJson]


class SimulateJson(Shape):
    """A simulation of scaling and cost."""

    environment: str
    endpoint: str
    instance_type: str
    service_curve: str
    capacity_per_s: float
    starting_s: float
    notes: list[str]
    present: ScalingRunJson
    proposal: ProposalOfScalingJson | None
    history: BackTestJson | None
