"""Chart lines for one endpoint, one line per variant and metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tritonstack.constructs.monitoring.metrics import (
    MICROSECONDS_PER_MS,
    Metric,
    Series,
    copy_metric,
    machine_metric,
    request_metric,
    traffic,
)
from tritonstack.constructs.monitoring.monitored import Monitored, MonitoredVariant
from tritonstack.constructs.monitoring.widgets import Line

PERCENTILES = ("p50", "p90", "p99")
_MINUTES_PER_HOUR = 60


def traffic_lines(monitored: Monitored) -> Iterator[Line]:
    """Yield the requests per variant."""
    for variant in monitored.variants:
        yield Line(variant.name, traffic(monitored, variant))


def request_lines(monitored: Monitored, names: Sequence[tuple[str, str]], statistic: str) -> Iterator[Line]:
    """Yield request metrics per variant, given as (metric, label)."""
    for variant in monitored.variants:
        for name, label in names:
            series = Series(request_metric(monitored, variant, name), statistic)
            yield Line(f"{variant.name}: {label}", series)


def latency_lines(
    monitored: Monitored,
    metric: str,
    *,
    statistics: Sequence[str] = PERCENTILES,
) -> Iterator[Line]:
    """Yield latency percentiles per variant, in milliseconds."""
    for index, variant in enumerate(monitored.variants):
        for statistic in statistics:
            series = Series(request_metric(monitored, variant, metric), statistic)
            label = f"{variant.name}: {statistic}"
            yield from scaled(f"{statistic.lower()}_{index}", label, series, MICROSECONDS_PER_MS)


def machine_lines(
    monitored: Monitored, metric: str, *, parts: Callable[[MonitoredVariant], int]
) -> Iterator[Line]:
    """Yield a utilization in percent: SageMaker sums it over an instance's processors or GPUs."""
    for index, variant in enumerate(monitored.variants):
        series = Series(machine_metric(monitored, variant, metric), "Average")
        yield from scaled(f"used{index}", variant.name, series, parts(variant))


def scaled(key: str, label: str, series: Series, divisor: int) -> Iterator[Line]:
    """Yield a series divided by a number."""
    if divisor == 1:
        yield Line(label, series)
        return
    yield Line(label, series, id=key, shown=False)
    yield Line(label, f"{key} / {divisor}")


def count_lines(monitored: Monitored, *, key: str) -> Iterator[Line]:
    """Yield the instance count per variant: each instance publishes once per minute, so samples are
    counted."""
    for index, variant in enumerate(monitored.variants):
        yield from _counted(f"{key}_{index}", variant.name, _machine_minutes(monitored, variant).metric)


def copy_lines(component: str) -> Iterator[Line]:
    """Yield the copy count of an inference component, counted the same way."""
    yield from _counted("copies", "copies", copy_metric(component, "CPUUtilizationNormalized"))


def cost_per_hour_lines(monitored: Monitored, *, key: str, label: str) -> Iterator[Line]:
    """Yield the cost of all instances, shadow included, if every price is known."""
    minutes, cost = _cost(monitored, key)
    yield from minutes
    yield Line(label, f"({cost}) * 3600 / PERIOD({key}_0)", id=f"{key}_hour")


def cost_per_thousand_lines(monitored: Monitored, *, key: str, label: str) -> Iterator[Line]:
    """Yield the cost per 1,000 requests; no value without traffic."""
    minutes, cost = _cost(monitored, key)
    yield from minutes
    calls = []
    for index, variant in enumerate(monitored.production):
        calls.append(f"{key}_calls{index}")
        yield Line(f"{label}: calls", traffic(monitored, variant), id=calls[-1], shown=False)
    total = calls[0] if len(calls) == 1 else " + ".join(f"FILL({call}, 0)" for call in calls)
    yield Line(label, f"({cost}) / ({total}) * 1000", id=f"{key}_thousand")


def unpriced(monitored: Monitored) -> list[str]:
    """Return the instance types without a known price."""
    return sorted({v.instance.name for v in monitored.variants if v.price_per_hour is None})


def _machine_minutes(monitored: Monitored, variant: MonitoredVariant) -> Series:
    return Series(machine_metric(monitored, variant, "CPUUtilization"), "SampleCount")


def _counted(key: str, label: str, metric: Metric) -> Iterator[Line]:
    yield Line(label, Series(metric, "SampleCount"), id=key, shown=False)
    yield Line(label, f"{key} / (PERIOD({key}) / 60)")


def _cost(monitored: Monitored, key: str) -> tuple[list[Line], str]:
    """Return the instance minutes per variant, and the expression of their total cost."""
    minutes, terms = [], []
    for index, variant in enumerate(monitored.variants):
        name = f"{key}_{index}"
        minutes.append(
            Line(f"{variant.name}: minutes", _machine_minutes(monitored, variant), id=name, shown=False)
        )
        terms.append(f"FILL({name}, 0) * {variant.price_per_hour or 0:g} / {_MINUTES_PER_HOUR}")
    return minutes, " + ".join(terms)
