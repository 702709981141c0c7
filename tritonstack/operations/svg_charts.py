"""Draw line charts, one above the other, as an SVG document."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 860, 260, 64, 34, 40
_COLORS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490", "#be123c", "#4d7c0f")
Point = tuple[float, float]


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart."""

    name: str
    points: Sequence[Point]
    dashed: bool = False
    is_dots: bool = False


@dataclass(frozen=True)
class LineChart:
    """Axes and lines; `x_scale` maps x to 0..1."""

    title: str
    lines: Sequence[ChartLine]
    x_ticks: Sequence[tuple[float, str]]
    x_scale: Callable[[float], float]


def draw_charts(title: str, charts: Sequence[LineChart]) -> str:
    """Return an SVG document."""
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


def round_step(value: float) -> float:
    """Return the next of 1, 2, 5, 10, and so on."""
    power: float = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def _drawn(chart: LineChart) -> Iterator[str]:
    right, bottom = _WIDTH - 320, _HEIGHT - _BOTTOM
    highest = max((y for line in chart.lines for _, y in line.points), default=1.0) * 1.08
    step = round_step(highest / 4)

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
