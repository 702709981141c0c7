"""Alarm thresholds of an endpoint."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tritonstack.base.yaml import Record
from tritonstack.spec.endpoints.rollouts import AlarmId


class Alarms(Record):
    """Alarm thresholds. Alarms stay OK without traffic; `null` omits an alarm."""

    latency_p99_ms: Annotated[float, Field(gt=0)] | None = 500
    """99th percentile of model latency over five minutes."""
    overhead_p99_ms: Annotated[float, Field(gt=0)] | None = 500
    """99th percentile of SageMaker's overhead over five minutes."""
    server_errors: Annotated[int, Field(ge=1)] | None = 5
    """Number of 5xx responses in five minutes."""
    client_errors: Annotated[int, Field(ge=1)] | None = 50
    """Number of 4xx responses in five minutes."""
    min_invocations: Annotated[int, Field(ge=1)] | None = None
    """Minimum number of invocations in five minutes, once there are any."""
    gpu_memory_percent: Annotated[float, Field(gt=0, le=100)] | None = 95
    """GPU memory in use, averaged over an instance's GPUs; GPU instances only."""
    triton_errors: Annotated[int, Field(ge=1)] | None = 10
    """Number of errors that Triton logs in five minutes."""
    backlog: Annotated[int, Field(ge=1)] | None = None
    """Number of queued requests of an asynchronous endpoint."""

    def threshold(self, alarm: AlarmId) -> float | None:
        """Return the threshold of an alarm; None if the file omits it."""
        value: float | None = getattr(self, FIELDS[alarm])
        return value


FIELDS: dict[AlarmId, str] = {
    "latency-p99": "latency_p99_ms",
    "overhead-p99": "overhead_p99_ms",
    "server-errors": "server_errors",
    "client-errors": "client_errors",
    "invocation-drop": "min_invocations",
    "gpu-memory": "gpu_memory_percent",
    "triton-errors": "triton_errors",
    "backlog": "backlog",
}
"""Threshold field of each alarm."""
