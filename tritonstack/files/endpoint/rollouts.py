"""Rollout strategies of endpoint updates, and the alarms that roll back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tritonstack.base.yaml import Record

AlarmId = Literal[
    "latency-p99",
    "overhead-p99",
    "server-errors",
    "client-errors",
    "invocation-drop",
    "gpu-memory",
    "triton-errors",
    "backlog",
]
"""Alarms of an endpoint; each is the suffix of an alarm name."""

Wait = Annotated[int, Field(ge=0, le=3600)]

_MACHINES_S = 1800
"""SageMaker's time to provision instances, without download and container start."""
LONGEST_ROLLOUT_S = 28_800
MOST_ROLLBACK_ALARMS = 10
"""The maximum number of rollback alarms that SageMaker accepts per update."""
_SHORTEST_ROLLOUT_S = 600


class _Rollout(Record):
    roll_back_on: Annotated[tuple[AlarmId, ...], Field(max_length=10)] | None = None
    """Alarms that roll back an update. Default: latency-p99 and server-errors, and client-errors on multi-
    model endpoints, where Triton reports its own errors as 400. Empty: no automatic rollback. Canary, linear,
    and rolling updates use copies of these three alarms that ignore an overload."""

    @model_validator(mode="after")
    def _distinct(self) -> _Rollout:
        if self.roll_back_on is not None and len(set(self.roll_back_on)) != len(self.roll_back_on):
            raise ValueError("duplicate alarm in roll_back_on; remove duplicates")
        return self


class AllAtOnce(_Rollout):
    """Blue/green: all traffic shifts at once when the new instances are ready."""

    strategy: Literal["all-at-once"] = "all-at-once"
    bake_s: Wait = 360
    """How long the old instances stay after the traffic shift; alarms evaluate five minutes."""

    @property
    def shifting_s(self) -> int:
        """Duration of traffic shifting and baking."""
        return self.bake_s


class Canary(_Rollout):
    """Blue/green with a canary: a part of the traffic shifts first, then the rest."""

    strategy: Literal["canary"]
    percent: Annotated[int, Field(ge=1, le=50)] = 50
    """Size of the canary in percent of the instances; at least one instance, so 10 needs ten instances."""
    wait_s: Wait = 600
    """How long to monitor the canary."""
    bake_s: Wait = 360
    """How long the old instances stay after all traffic has shifted."""

    @property
    def shifting_s(self) -> int:
        """Duration of traffic shifting and baking."""
        return self.wait_s + self.bake_s


class Linear(_Rollout):
    """Blue/green with linear shifting: traffic shifts in equal steps."""

    strategy: Literal["linear"]
    step_percent: Annotated[int, Field(ge=10, le=50)] = 50
    """Step size in percent of the instances; at least one instance, so 25 needs four instances."""
    wait_s: Wait = 360
    """How long to monitor each step."""
    bake_s: Wait = 360
    """How long the old instances stay after all traffic has shifted."""

    @property
    def shifting_s(self) -> int:
        """Duration of traffic shifting and baking."""
        steps = -(-100 // self.step_percent)
        return (steps - 1) * self.wait_s + self.bake_s


class Rolling(_Rollout):
    """Rolling update: instances (or inference component copies) are replaced in batches."""

    strategy: Literal["rolling"]
    batch_percent: Annotated[int, Field(ge=5, le=50)] = 50
    """Batch size in percent of the instances; at least one instance, so 25 needs four instances."""
    wait_s: Wait = 360
    """How long to monitor each batch."""

    @property
    def shifting_s(self) -> int:
        """Duration of traffic shifting and baking."""
        return -(-100 // self.batch_percent) * self.wait_s

    def batch_copies(self, copies: int) -> int:
        """Return the copies per batch of an inference component: at least one, at most SageMaker's half."""
        return max(1, min(-(-copies * self.batch_percent // 100), copies // 2))


Rollout = Annotated[AllAtOnce | Canary | Linear | Rolling, Field(discriminator="strategy")]


def longest_rollout_s(rollout: AllAtOnce | Canary | Linear | Rolling, *, starting_s: int) -> int:
    """Return SageMaker's time limit for a rollout whose containers may take `starting_s` to start.

    A rolling update starts the instances of one batch after another. The sum is capped at SageMaker's
    maximum: instances and containers usually start much faster than their limits.
    """
    batches = -(-100 // rollout.batch_percent) if isinstance(rollout, Rolling) else 1
    seconds = batches * (_MACHINES_S + starting_s) + rollout.shifting_s
    return max(_SHORTEST_ROLLOUT_S, min(seconds, LONGEST_ROLLOUT_S))


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
