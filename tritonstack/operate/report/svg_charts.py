"""Draw line charts as SVG: documents with charts one above the other, or single charts for a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]


@dataclass(frozen=True)
class ChartColors:
    """Colors of a chart, as SVG attributes."""

    background: str
    text: str
    muted: str
    grid: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class ChartStyle:
    """Size and colors of a chart; with a legend, `right` holds its width."""

    colors: ChartColors
    width: int = 860
    height: int = 260
    left: int = 64
    right: int = 320
    legend: bool = True


LIGHT = ChartColors(
    background="#ffffff",
    text="#111827",
    muted="#4b5563",
    grid="#e5e7eb",
    lines=("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490", "#be123c", "#4d7c0f"),
)
DOCUMENT = ChartStyle(LIGHT)
_TOP, _BOTTOM = 34, 40


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart."""

    name: str
    points: Sequence[Point]
    dashed: bool = False
    is_dots: bool = False
    labels: Sequence[str] = ()
    """A text beside each point."""


@dataclass(frozen=True)
class LineChart:
    """Axes and lines; `x_scale` maps x to 0..1."""

    title: str
    lines: Sequence[ChartLine]
    x_ticks: Sequence[tuple[float, str]]
    x_scale: Callable[[float], float]
    y_ticks: Sequence[tuple[float, str]] = ()
    """Default: from 0 to the largest value."""
    y_scale: Callable[[float], float] | None = None
    """Maps y to 0..1; required with `y_ticks`."""


def draw_charts(title: str, charts: Sequence[LineChart], *, style: ChartStyle = DOCUMENT) -> str:
    """Return an SVG document."""
    height = len(charts) * style.height + 40
    body = "\n".join(
        f'<g transform="translate(0 {40 + number * style.height})">{"".join(_drawn(chart, style))}</g>'
        for number, chart in enumerate(charts)
    )
    colors = style.colors
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {style.width} {height}" width="{style.width}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="100%" height="100%" fill="{colors.background}"/>\n'
        f'<text x="16" y="24" font-size="15" font-weight="600" fill="{colors.text}">{escape(title)}</text>\n'
        f"{body}\n</svg>\n"
    )


def draw_chart(chart: LineChart, style: ChartStyle) -> str:
    """Return one chart as an SVG element that fills the width of its place."""
    return (
        f'<svg viewBox="0 0 {style.width} {style.height}" role="img" aria-label="{escape(chart.title)}" '
        f'font-size="12">{"".join(_drawn(chart, style))}</svg>'
    )


def round_step(value: float) -> float:
    """Return the next of 1, 2, 5, 10, and so on."""
    power: float = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def linear_axis(highest: float) -> tuple[list[tuple[float, str]], Callable[[float], float]]:
    """Return the ticks and the scale of an axis from 0 to at least the highest value."""
    step = round_step((highest or 1.0) / 6)
    last = step * math.ceil((highest or 1.0) / step)
    return [
        (number * step, f"{number * step:g}") for number in range(int(last / step) + 1)
    ], lambda x: x / last


def _y_axis(chart: LineChart) -> tuple[Callable[[float], float], Sequence[tuple[float, str]]]:
    if chart.y_scale is not None:
        return chart.y_scale, chart.y_ticks
    highest = max((y for line in chart.lines for _, y in line.points), default=1.0) * 1.08 or 1.0
    step = round_step(highest / 4)
    ticks = [(number * step, f"{number * step:g}") for number in range(int(highest / step) + 1)]
    return lambda value: value / highest, ticks


def _drawn(chart: LineChart, style: ChartStyle) -> Iterator[str]:
    left, right = style.left, style.width - style.right
    bottom, colors = style.height - _BOTTOM, style.colors
    y_scale, y_ticks = _y_axis(chart)

    def x_at(value: float) -> float:
        return left + chart.x_scale(value) * (right - left)

    def y_at(value: float) -> float:
        return bottom - y_scale(value) * (bottom - _TOP)

    yield f'<text x="{left}" y="20" font-weight="600" fill="{colors.text}">{escape(chart.title)}</text>'
    for value, text in y_ticks:
        y = y_at(value)
        yield f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colors.grid}"/>'
        yield (
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{colors.muted}">'
            f"{escape(text)}</text>"
        )
    for value, text in chart.x_ticks:
        yield (
            f'<text x="{x_at(value):.1f}" y="{bottom + 18}" text-anchor="middle" fill="{colors.muted}">'
            f"{escape(text)}</text>"
        )
    for number, line in enumerate(chart.lines):
        color = colors.lines[number % len(colors.lines)]
        points = [(x_at(x), y_at(y)) for x, y in line.points]
        yield from _line(line, points, color, colors.text)
        if style.legend:
            yield from _legend(line, color, colors.text, x=right + 16, y=_TOP + 8 + number * 18)


def _line(line: ChartLine, points: Sequence[Point], color: str, text_color: str) -> Iterator[str]:
    if line.is_dots or len(points) == 1:
        yield from (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}" fill-opacity="0.6"/>' for x, y in points
        )
    if not line.is_dots:
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{joined}" fill="none" stroke="{color}" stroke-width="2"{_dashes(line)}/>'
    for number, ((x, y), label) in enumerate(zip(points, line.labels, strict=False)):
        above = y - 5 if number % 2 == 0 else y + 14  # neighbors often lie at one place
        yield f'<text x="{x + 7:.1f}" y="{above:.1f}" fill="{text_color}">{escape(label)}</text>'


def _legend(line: ChartLine, color: str, text_color: str, *, x: int, y: int) -> Iterator[str]:
    yield f'<line x1="{x}" x2="{x + 20}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="2"{_dashes(line)}/>'
    yield f'<text x="{x + 26}" y="{y + 4}" fill="{text_color}">{escape(line.name)}</text>'


def _dashes(line: ChartLine) -> str:
    return ' stroke-dasharray="5 4"' if line.dashed else ""
