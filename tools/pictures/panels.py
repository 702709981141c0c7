"""Draw the charts of a dashboard as SVG, in the colors of a light or a dark page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tritonstack.operate.report.svg_charts import LIGHT, ChartColors, ChartLine, LineChart, round_step

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 860, 260, 64, 34, 40
_LEGEND = 320
"""Width of the legend beside a chart."""
_DARK = ChartColors(
    background="#0d1117",
    text="#e6edf3",
    muted="#9aa4af",
    grid="#30363d",
    lines=("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#d29922", "#39c5cf", "#ff7b72", "#a5d6a7"),
)


def svg_document(title: str, body: str, *, width: int, height: int) -> str:
    """Return an SVG document in the colors of a light or a dark page."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f"<style>{_style(LIGHT)}"
        f"@media (prefers-color-scheme:dark){{{_style(_DARK)}}}</style>\n"
        f'<rect width="100%" height="100%" class="page"/>\n{body}\n</svg>\n'
    )


def chart_elements(
    chart: LineChart, *, width: int = _WIDTH, height: int = _HEIGHT, legend_below: bool = False
) -> str:
    """Return the elements of a chart, with the legend beside or below it."""
    return "".join(_drawn(chart, width, height, legend_below=legend_below))


def _style(colors: ChartColors) -> str:
    lines = "".join(
        f".l{number}{{stroke:{color}}}.f{number}{{fill:{color}}}" for number, color in enumerate(colors.lines)
    )
    return (
        f".page{{fill:{colors.background}}}.ink{{fill:{colors.text}}}.soft{{fill:{colors.muted}}}"
        f".grid{{stroke:{colors.grid}}}{lines}"
    )


def _drawn(chart: LineChart, width: int, height: int, *, legend_below: bool) -> Iterator[str]:
    places = list(_places_below(chart.lines, width)) if legend_below else []
    right = width - 28 if legend_below else width - _LEGEND
    bottom = height - _BOTTOM - (18 * (places[-1][1] + 1) if places else 0)
    highest = max((y for line in chart.lines for _, y in line.points), default=1.0) * 1.08 or 1.0
    step = round_step(highest / 4)

    def x_at(value: float) -> float:
        return _LEFT + chart.x_scale(value) * (right - _LEFT)

    def y_at(value: float) -> float:
        return bottom - value / highest * (bottom - _TOP)

    title_x = 16 if legend_below else _LEFT
    yield f'<text x="{title_x}" y="20" font-weight="600" class="ink">{escape(chart.title)}</text>'
    for number in range(int(highest / step) + 1):
        value = number * step
        y = y_at(value)
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="soft">{value:g}</text>'
    for value, text in chart.x_ticks:
        yield (
            f'<text x="{x_at(value):.1f}" y="{bottom + 18}" text-anchor="middle" class="soft">'
            f"{escape(text)}</text>"
        )
    for number, line in enumerate(chart.lines):
        color = number % len(LIGHT.lines)
        dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
        points = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in line.points)
        if line.is_dots or len(line.points) == 1:
            yield from (
                f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3" class="f{color}" fill-opacity="0.6"/>'
                for x, y in line.points
            )
        if not line.is_dots:
            yield f'<polyline points="{points}" fill="none" class="l{color}" stroke-width="2"{dashes}/>'
        x, y = (
            (places[number][0], bottom + 40 + 18 * places[number][1])
            if places
            else (right + 16, _TOP + 8 + number * 18)
        )
        yield f'<line x1="{x}" x2="{x + 20}" y1="{y}" y2="{y}" class="l{color}" stroke-width="2"{dashes}/>'
        yield f'<text x="{x + 26}" y="{y + 4}" class="ink">{escape(line.name)}</text>'


def _places_below(lines: Sequence[ChartLine], width: int) -> Iterator[tuple[int, int]]:
    """Yield the x and the row of each legend entry, from left to right as far as they fit."""
    x, row = 16, 0
    for line in lines:
        needed = 26 + 7 * len(line.name) + 16
        if x > 16 and x + needed > width:
            x, row = 16, row + 1
        yield x, row
        x += needed
