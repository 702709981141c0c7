"""Draw simulations as SVG: requests, instances, and latency over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tritonstack.operate.report.svg_charts import ChartLine, LineChart, draw_charts, round_step
from tritonstack.operate.sizing.simulation.simulation import ScalingRun, SimulatedSlice

_HOUR_S = 3600
Value = Callable[[SimulatedSlice], float | None]


def draw_simulations(title: str, runs: Mapping[str, ScalingRun]) -> str:
    """Return an SVG document of simulations by name: the first with solid lines, others with dashed ones."""
    shown = list(runs.items())
    first = shown[0][1]
    requests = _lines([("all", first)], lambda part: part.requests / first.slice_s)
    lost = _lines([(f"lost, {name}", run) for name, run in shown], lambda part: part.lost / first.slice_s)
    charts = [
        _chart("requests per second", [*requests, *lost], first),
        _chart("instances in service", _lines(shown, lambda part: part.in_service), first),
        _chart("p99 in ms", _lines(shown, lambda part: part.p99_ms), first),
    ]
    return draw_charts(title, charts)


def _lines(shown: Sequence[tuple[str, ScalingRun]], value: Value) -> list[ChartLine]:
    lines = []
    for number, (name, run) in enumerate(shown):
        points = [(part.at_s, height) for part in run.slices if (height := value(part)) is not None]
        lines.append(ChartLine(name, points, dashed=number > 0))
    return lines


def _chart(title: str, lines: Sequence[ChartLine], run: ScalingRun) -> LineChart:
    longest = max(run.hours * _HOUR_S, run.slice_s)
    unit, symbol = (_HOUR_S, "h") if longest >= 2 * _HOUR_S else (60, "min")
    step = round_step(longest / unit / 6)
    ticks = [
        (number * step * unit, f"{number * step:g} {symbol}")
        for number in range(int(longest / unit / step) + 1)
    ]
    return LineChart(title, lines, ticks, lambda second: second / longest)
