"""Draw load tests as SVG: latency by percentile, answers and latency over time, and latency by load."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tritonstack.operations.loads.histograms import percentiles_s
from tritonstack.operations.loads.runs import LoadRun

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 860, 260, 64, 34, 40
_COLORS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490", "#be123c", "#4d7c0f")
_SHARES = (0, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
Point = tuple[float, float]


@dataclass(frozen=True)
class _Line:
    name: str
    points: Sequence[Point]
    dashed: bool = False
    is_dots: bool = False


@dataclass(frozen=True)
class _Chart:
    """Axes and lines; x and y are mapped to 0..1 by the caller's scales."""

    title: str
    lines: Sequence[_Line]
    x_ticks: Sequence[tuple[float, str]]
    x_scale: Callable[[float], float]


def draw_runs(title: str, runs: Sequence[LoadRun], *, before: Sequence[LoadRun] = ()) -> str:
    """Return an SVG document of runs, and of earlier ones with dashed lines."""
    shown = [(run, False) for run in runs] + [(run, True) for run in before]
    return _document(title, [_by_percentile(shown), _over_time(shown)])


def _document(title: str, charts: Sequence[_Chart]) -> str:
    height = len(charts) * _HEIGHT + 40
    body = "\n".join(
        f'<g transform="translate(0 {40 + number * _HEIGHT})">{"".join(_drawn(chart))}</g>'
        for number, chart in enumerate(charts)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        '<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="16" y="24" font-size="15" font-weight="600" fill="#111827">{escape(title)}</text>\n'
        f"{body}\n</svg>\n"
    )


def _by_percentile(shown: Sequence[tuple[LoadRun, bool]]) -> _Chart:
    lines = []
    for run, dashed in shown:
        total = int(run.latencies.sum())
        shares = [share for share in _SHARES if total * (1 - share / 100) >= 10]
        values = percentiles_s(run.latencies, shares) * 1000
        lines.append(_Line(_named(run, dashed), list(zip(shares, values.tolist(), strict=True)), dashed))
    last = _nines(_SHARES[-1])
    return _Chart(
        "latency in ms, by percentile",
        lines,
        [(share, f"{share:g}") for share in (0, 50, 90, 99, 99.9, 99.99)],
        lambda share: _nines(share) / last,
    )


def _over_time(shown: Sequence[tuple[LoadRun, bool]]) -> _Chart:
    longest = max(len(run.slices) * run.slice_s for run, _ in shown)
    lines = []
    for run, dashed in shown:
        points = [
            ((number + 0.5) * run.slice_s, float(percentiles_s(one.latencies, (99.0,))[0]) * 1000)
            for number, one in enumerate(run.slices)
        ]
        lines.append(
            _Line(_named(run, dashed), [point for point in points if not math.isnan(point[1])], dashed)
        )
    step = _round_step(longest / 6)
    ticks = [(number * step, f"{number * step:g} s") for number in range(int(longest / step) + 1)]
    return _Chart("p99 in ms, over time", lines, ticks, lambda second: second / longest)


def _named(run: LoadRun, is_earlier: bool) -> str:
    return f"{run.load}{' (before)' if is_earlier else ''}"


def _nines(share: float) -> float:
    return -math.log10(1 - min(share, 99.995) / 100)


def _round_step(value: float) -> float:
    power: float = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def _drawn(chart: _Chart) -> Iterator[str]:
    right, bottom = _WIDTH - 320, _HEIGHT - _BOTTOM
    highest = max((y for line in chart.lines for _, y in line.points), default=1.0) * 1.08
    step = _round_step(highest / 4)

    def x_at(value: float) -> float:
        return _LEFT + chart.x_scale(value) * (right - _LEFT)

    def y_at(value: float) -> float:
        return bottom - value / highest * (bottom - _TOP)

    yield f'<text x="{_LEFT}" y="20" font-weight="600" fill="#111827">{escape(chart.title)}</text>'
    for number in range(int(highest / step) + 1):
        value = number * step
        y = y_at(value)
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#4b5563">{value:g}</text>'
    for value, text in chart.x_ticks:
        yield (
            f'<text x="{x_at(value):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#4b5563">'
            f"{escape(text)}</text>"
        )
    for number, line in enumerate(chart.lines):
        color = _COLORS[number % len(_COLORS)]
        dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
        points = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in line.points)
        if line.is_dots or len(line.points) == 1:
            yield from (
                f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3" fill="{color}" fill-opacity="0.6"/>'
                for x, y in line.points
            )
        if not line.is_dots:
            yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>'
        y = _TOP + 8 + number * 18
        yield (
            f'<line x1="{right + 16}" x2="{right + 36}" y1="{y}" y2="{y}" stroke="{color}" '
            f'stroke-width="2"{dashes}/>'
        )
        yield f'<text x="{right + 42}" y="{y + 4}" fill="#111827">{escape(line.name)}</text>'


@dataclass(frozen=True)
class Curve:
    """The p99 in ms by answers per second, one point per load."""

    name: str
    points: Sequence[Point]


def draw_curves(title: str, curves: Sequence[Curve], dots: Sequence[Point]) -> str:
    """Return an SVG document with curves, and with a dot for each of many runs."""
    highest = max((x for x, _ in [*dots, *(point for one in curves for point in one.points)]), default=1.0)
    step = _round_step(highest / 6)
    last = step * math.ceil(highest / step)
    chart = _Chart(
        "p99 in ms, by answers per second",
        [_Line(one.name, one.points) for one in curves] + [_Line("runs of the search", dots, is_dots=True)],
        [(number * step, f"{number * step:g}") for number in range(int(last / step) + 1)],
        lambda x: x / last,
    )
    return _document(title, [chart])
