"""How an update reaches an endpoint, and which alarms take it back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tritonstack.base.documents import Record

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
"""The alarms that an endpoint can have; each is the end of an alarm's name."""

Wait = Annotated[int, Field(ge=0, le=3600)]

_MACHINES_S = 1800
"""What SageMaker may take to bring up machines, beside download and start of the container."""
LONGEST_ROLLOUT_S = 28_800
_SHORTEST_ROLLOUT_S = 600


class _Rollout(Record):
    roll_back_on: Annotated[tuple[AlarmId, ...], Field(max_length=10)] | None = None
    """The alarms that take an update back. Not given: latency-p99 and server-errors, and client-errors on
    multi-model endpoints, where Triton answers its own faults with 400. Empty: nothing takes it back."""

    @model_validator(mode="after")
    def _distinct(self) -> _Rollout:
        if self.roll_back_on is not None and len(set(self.roll_back_on)) != len(self.roll_back_on):
            raise ValueError("roll_back_on: an alarm stands twice; keep one of each")
        return self


class AllAtOnce(_Rollout):
    """New machines beside the old; all traffic moves when they are ready."""

    strategy: Literal["all-at-once"] = "all-at-once"
    bake_s: Wait = 360
    """The old machines stay this long after the traffic has moved: alarms look at five minutes."""

    @property
    def shifting_s(self) -> int:
        """How long traffic takes to move and to prove itself."""
        return self.bake_s


class Canary(_Rollout):
    """A part of the new machines takes traffic first, then all of them."""

    strategy: Literal["canary"]
    percent: Annotated[int, Field(ge=1, le=50)] = 50
    """The first part, in percent of the machines: one machine at least, so 10 takes ten of them."""
    wait_s: Wait = 600
    """How long the first part is watched."""
    bake_s: Wait = 360
    """The old machines stay this long after all traffic has moved."""

    @property
    def shifting_s(self) -> int:
        """How long traffic takes to move and to prove itself."""
        return self.wait_s + self.bake_s


class Linear(_Rollout):
    """Traffic moves in equal steps."""

    strategy: Literal["linear"]
    step_percent: Annotated[int, Field(ge=10, le=50)] = 50
    """One step, in percent of the machines: one machine at least, so 25 takes four of them."""
    wait_s: Wait = 360
    """How long each step is watched."""
    bake_s: Wait = 360
    """The old machines stay this long after all traffic has moved."""

    @property
    def shifting_s(self) -> int:
        """How long traffic takes to move and to prove itself."""
        steps = -(-100 // self.step_percent)
        return (steps - 1) * self.wait_s + self.bake_s


class Rolling(_Rollout):
    """Machines (copies, of an inference component) are replaced in batches: the fewest at a time."""

    strategy: Literal["rolling"]
    batch_percent: Annotated[int, Field(ge=5, le=50)] = 50
    """One batch, in percent of the machines: one machine at least, so 25 takes four of them."""
    wait_s: Wait = 360
    """How long each batch is watched."""

    @property
    def shifting_s(self) -> int:
        """How long traffic takes to move and to prove itself."""
        return -(-100 // self.batch_percent) * self.wait_s


Rollout = Annotated[AllAtOnce | Canary | Linear | Rolling, Field(discriminator="strategy")]


def longest_rollout_s(rollout: AllAtOnce | Canary | Linear | Rolling, *, starting_s: int) -> int:
    """The time limit that SageMaker is given for a rollout whose containers may take `starting_s` to start.

    Batches of a rolling update start their machines one after the other. Machines and containers are quicker
    than their limits as a rule: where the sum is more than SageMaker grants, it gets what SageMaker grants.
    """
    batches = -(-100 // rollout.batch_percent) if isinstance(rollout, Rolling) else 1
    seconds = batches * (_MACHINES_S + starting_s) + rollout.shifting_s
    return max(_SHORTEST_ROLLOUT_S, min(seconds, LONGEST_ROLLOUT_S))
