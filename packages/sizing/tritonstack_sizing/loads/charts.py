"""Draw load tests as SVG: latency by percentile, answers and latency over time, and latency by load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tritonstack.operate.report.svg_charts import (
    ChartLine,
    LineChart,
    Point,
    draw_charts,
    linear_axis,
    round_step,
)
from tritonstack_sizing.loads.histograms import percentiles_s
from tritonstack_sizing.loads.runs import LoadRun

_SHARES = (0, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)


def draw_runs(title: str, runs: Sequence[LoadRun], *, before: Sequence[LoadRun] = ()) -> str:
    """Return an SVG document of runs, and of earlier ones with dashed lines."""
    shown = [(run, False) for run in runs] + [(run, True) for run in before]
    return draw_charts(title, [_by_percentile(shown), _over_time(shown)])


def _by_percentile(shown: Sequence[tuple[LoadRun, bool]]) -> LineChart:
    lines = []
    for run, dashed in shown:
        total = int(run.latencies.sum())
        shares = [share for share in _SHARES if total * (1 - share / 100) >= 10]
        values = percentiles_s(run.latencies, shares) * 1000
        lines.append(ChartLine(_named(run, dashed), list(zip(shares, values.tolist(), strict=True)), dashed))
    last = _nines(_SHARES[-1])
    return LineChart(
        "latency in ms, by percentile",
        lines,
        [(share, f"{share:g}") for share in (0, 50, 90, 99, 99.9, 99.99)],
        lambda share: _nines(share) / last,
    )


def _over_time(shown: Sequence[tuple[LoadRun, bool]]) -> LineChart:
    longest = max(len(run.slices) * run.slice_s for run, _ in shown)
    lines = []
    for run, dashed in shown:
        points = [
            ((number + 0.5) * run.slice_s, float(percentiles_s(part.latencies, (99.0,))[0]) * 1000)
            for number, part in enumerate(run.slices)
        ]
        lines.append(
            ChartLine(_named(run, dashed), [point for point in points if not math.isnan(point[1])], dashed)
        )
    step = round_step(longest / 6)
    ticks = [(number * step, f"{number * step:g} s") for number in range(int(longest / step) + 1)]
    return LineChart("p99 in ms, over time", lines, ticks, lambda second: second / longest)


def _named(run: LoadRun, is_earlier: bool) -> str:
    return f"{run.load}{' (before)' if is_earlier else ''}"


def _nines(share: float) -> float:
    return -math.log10(1 - min(share, 99.995) / 100)


def draw_curves(title: str, curves: Mapping[str, Sequence[Point]], dots: Sequence[Point]) -> str:
    """Return an SVG document with curves of the p99 in ms by answers per second, and with a dot per run."""
    highest = max((x for points in [dots, *curves.values()] for x, _ in points), default=1.0)
    ticks, scale = linear_axis(highest)
    chart = LineChart(
        "p99 in ms, by answers per second",
        [ChartLine(name, points) for name, points in curves.items()]
        + [ChartLine("runs of the search", dots, is_dots=True)],
        ticks,
        scale,
    )
    return draw_charts(title, [chart])
