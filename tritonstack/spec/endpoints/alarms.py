"""What wakes somebody up: the thresholds of an endpoint's alarms, and which of them it has."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tritonstack.base.documents import Record
from tritonstack.spec.endpoints.rollouts import AlarmId


class Alarms(Record):
    """What wakes somebody up. Each is silent while nobody calls; `null` leaves one out."""

    latency_p99_ms: Annotated[float, Field(gt=0)] | None = 500
    """99th percentile of the model's latency over five minutes."""
    overhead_p99_ms: Annotated[float, Field(gt=0)] | None = 500
    """99th percentile of what SageMaker adds to it, over five minutes."""
    server_errors: Annotated[int, Field(ge=1)] | None = 5
    """Invocations answered with 5xx in five minutes."""
    client_errors: Annotated[int, Field(ge=1)] | None = 50
    """Invocations answered with 4xx in five minutes."""
    min_invocations: Annotated[int, Field(ge=1)] | None = None
    """Invocations in five minutes below which callers are missed, while there are any at all."""
    gpu_memory_percent: Annotated[float, Field(gt=0, le=100)] | None = 95
    """GPU memory in use, averaged over a machine's GPUs; on GPU machines only."""
    triton_errors: Annotated[int, Field(ge=1)] | None = 10
    """Errors that Triton itself logs in five minutes."""
    backlog: Annotated[int, Field(ge=1)] | None = None
    """Requests that wait for an asynchronous endpoint."""

    def threshold(self, alarm: AlarmId) -> float | None:
        """The bound of an alarm, or None where the file leaves it out."""
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
"""Each alarm's threshold."""
