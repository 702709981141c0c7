"""The metrics that scaling follows: from ticks to the datapoints of CloudWatch, when they are available."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tritonstack.operate.sizing.simulation.serving import TickLoad

Statistic = Callable[[Sequence[TickLoad]], float | None]
"""The value of a period from its ticks; None if there is no data."""


def _per_instance(ticks: Sequence[TickLoad]) -> float | None:
    """Sum of 1/instances for each request. Without traffic, SageMaker publishes zeros."""
    return sum(tick.requests / max(1, tick.instances) for tick in ticks)


def _concurrency(ticks: Sequence[TickLoad]) -> float | None:
    return max(tick.concurrency for tick in ticks)


def _utilization(ticks: Sequence[TickLoad]) -> float | None:
    measured = [tick.busy for tick in ticks if tick.instances]
    return 100 * sum(measured) / len(measured) if measured else None


def _backlog(ticks: Sequence[TickLoad]) -> float | None:
    measured = [tick.backlog / tick.instances for tick in ticks if tick.instances]
    return sum(measured) / len(measured) if measured else None


def _without_capacity(ticks: Sequence[TickLoad]) -> float | None:
    return max(float(tick.backlog > 0 and not tick.instances) for tick in ticks)


def _failures(ticks: Sequence[TickLoad]) -> float | None:
    return float(sum(tick.unserved for tick in ticks if not tick.instances))


STATISTICS: Mapping[str, Statistic] = {
    "InvocationsPerInstance": _per_instance,
    "InvocationsPerCopy": _per_instance,
    "ConcurrentRequestsPerModel": _concurrency,
    "ConcurrentRequestsPerCopy": _concurrency,
    "CPUUtilization": _utilization,
    "GPUUtilization": _utilization,
    "CPUUtilizationNormalized": _utilization,
    "GPUUtilizationNormalized": _utilization,
    "ApproximateBacklogSizePerInstance": _backlog,
    "HasBacklogWithoutCapacity": _without_capacity,
    "NoCapacityInvocationFailures": _failures,
}
"""CloudWatch metrics that policies may follow."""
