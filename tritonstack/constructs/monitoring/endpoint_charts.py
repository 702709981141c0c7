"""What is worth seeing of one endpoint: the lines of its charts, variants side by side."""

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
from tritonstack.constructs.monitoring.monitored import Watched, WatchedVariant
from tritonstack.constructs.monitoring.widgets import Line

PERCENTILES = ("p50", "p90", "p99")
_MINUTES_PER_HOUR = 60


def traffic_lines(watched: Watched) -> Iterator[Line]:
    """Requests that reach each variant."""
    for variant in watched.variants:
        yield Line(variant.name, traffic(watched, variant))


def request_lines(watched: Watched, names: Sequence[tuple[str, str]], statistic: str) -> Iterator[Line]:
    """Metrics of requests as (metric, label), of each variant."""
    for variant in watched.variants:
        for name, label in names:
            series = Series(request_metric(watched, variant, name), statistic)
            yield Line(f"{variant.name}: {label}", series)


def latency_lines(
    watched: Watched,
    metric: str,
    *,
    statistics: Sequence[str] = PERCENTILES,
    divisor: int = MICROSECONDS_PER_MS,
) -> Iterator[Line]:
    """Percentiles of a latency in milliseconds, of each variant."""
    for index, variant in enumerate(watched.variants):
        for statistic in statistics:
            series = Series(request_metric(watched, variant, metric), statistic)
            label = f"{variant.name}: {statistic}"
            yield from scaled(f"{statistic.lower()}_{index}", label, series, divisor)


def machine_lines(watched: Watched, metric: str, *, parts: Callable[[WatchedVariant], int]) -> Iterator[Line]:
    """A use of machines in percent: SageMaker adds it up over a machine's processors, or GPUs."""
    for index, variant in enumerate(watched.variants):
        series = Series(machine_metric(watched, variant, metric), "Average")
        yield from scaled(f"used{index}", variant.name, series, parts(variant))


def scaled(key: str, label: str, series: Series, divisor: int) -> Iterator[Line]:
    """A series divided by a number."""
    if divisor == 1:
        yield Line(label, series)
        return
    yield Line(label, series, id=key, shown=False)
    yield Line(label, f"{key} / {divisor}")


def count_lines(watched: Watched, *, key: str) -> Iterator[Line]:
    """How many machines each variant has: each publishes its load once a minute, so samples are counted."""
    for index, variant in enumerate(watched.variants):
        yield from _counted(f"{key}_{index}", variant.name, _machine_minutes(watched, variant).metric)


def copy_lines(component: str) -> Iterator[Line]:
    """How many copies an inference component has, counted in the same way."""
    yield from _counted("copies", "copies", copy_metric(component, "CPUUtilizationNormalized"))


def cost_per_hour_lines(watched: Watched, *, key: str, label: str) -> Iterator[Line]:
    """What an endpoint's machines cost, shadow and all; only where every price is known."""
    minutes, cost = _cost(watched, key)
    yield from minutes
    yield Line(label, f"({cost}) * 3600 / PERIOD({key}_0)", id=f"{key}_hour")


def cost_per_thousand_lines(watched: Watched, *, key: str, label: str) -> Iterator[Line]:
    """What 1,000 answers cost; nothing where there is no traffic."""
    minutes, cost = _cost(watched, key)
    yield from minutes
    calls = []
    for index, variant in enumerate(watched.production):
        calls.append(f"{key}_calls{index}")
        yield Line(f"{label}: calls", traffic(watched, variant), id=calls[-1], shown=False)
    total = calls[0] if len(calls) == 1 else " + ".join(f"FILL({call}, 0)" for call in calls)
    yield Line(label, f"({cost}) / ({total}) * 1000", id=f"{key}_thousand")


def unpriced(watched: Watched) -> list[str]:
    """The kinds of machines whose price is not known."""
    return sorted({v.instance.name for v in watched.variants if v.price_per_hour is None})


def _machine_minutes(watched: Watched, variant: WatchedVariant) -> Series:
    return Series(machine_metric(watched, variant, "CPUUtilization"), "SampleCount")


def _counted(key: str, label: str, metric: Metric) -> Iterator[Line]:
    yield Line(label, Series(metric, "SampleCount"), id=key, shown=False)
    yield Line(label, f"{key} / (PERIOD({key}) / 60)")


def _cost(watched: Watched, key: str) -> tuple[list[Line], str]:
    """The minutes of each variant's machines, and the expression of what they cost together."""
    minutes, terms = [], []
    for index, variant in enumerate(watched.variants):
        name = f"{key}_{index}"
        minutes.append(
            Line(f"{variant.name}: minutes", _machine_minutes(watched, variant), id=name, shown=False)
        )
        terms.append(f"FILL({name}, 0) * {variant.price_per_hour or 0:g} / {_MINUTES_PER_HOUR}")
    return minutes, " + ".join(terms)
