"""Draw terminal lines as SVG: real text, in the colors of a light or a dark page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from rich.style import Style

from tools.pictures.terminal import Line

_CELL, _LINE, _MARGIN, _BAR = 8.4, 19, 18, 34
_RUN = re.compile(r"\S+(?: \S+)*")
"""Text between columns: each starts at its own place, whatever the font's width is."""
_LIGHT = ("#24292f", "#c4232c", "#1a7f37", "#8a5a00", "#0b5cad", "#8250df", "#0a6f7f", "#57606a")
_DARK = ("#e6edf3", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#67d4e3", "#9aa4af")
_STYLE = """
.page{{fill:{page};stroke:{edge}}} .bar{{fill:{edge}}}
text{{fill:{text};white-space:pre;font-variant-ligatures:none}} .t{{fill:{dim}}}
.d{{fill:{dim}}} .b{{font-weight:700}}
"""
_FONT = "ui-monospace,'JetBrains Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"


@dataclass(frozen=True)
class Frame:
    """What a terminal shows, and for how long."""

    lines: Sequence[Line]
    seconds: float


def draw_screen(title: str, lines: Sequence[Line], *, columns: int) -> str:
    """Draw a terminal with these lines."""
    rows = "".join(_row(line, _BAR + 14 + _LINE * number) for number, line in enumerate(lines))
    return _document(title, rows, columns=columns, rows=len(lines))


def draw_film(title: str, frames: Sequence[Frame], *, columns: int, rows: int) -> str:
    """Draw a terminal that shows one frame after the other, without end.

    Readers who prefer no motion see the last frame.
    """
    symbols: dict[Line, str] = {}
    for frame in frames:
        for line in frame.lines:
            if line and line not in symbols:
                symbols[line] = f"r{len(symbols)}"
    height, total = rows * _LINE + 20, sum(frame.seconds for frame in frames)
    definitions = "".join(f'<g id="{name}">{_row(line, 0)}</g>' for line, name in symbols.items())
    pictures, steps, at = [], [], 0.0
    for number, frame in enumerate(frames):
        uses = "".join(
            f'<use href="#{symbols[line]}" y="{14 + _LINE * row}"/>'
            for row, line in enumerate(frame.lines)
            if line
        )
        pictures.append(f'<g transform="translate(0 {number * height})">{uses}</g>')
        steps.append(f"{at / total:.3%}{{transform:translateY({-number * height}px)}}")
        at += frame.seconds
    last = -(len(frames) - 1) * height
    style = (
        f"@keyframes film{{{''.join(steps)}100%{{transform:translateY({last}px)}}}}"
        f".film{{animation:film {total:.1f}s step-end infinite}}"
        f"@media (prefers-reduced-motion:reduce){{.film{{animation:none;transform:translateY({last}px)}}}}"
    )
    width = columns * _CELL + 2 * _MARGIN
    body = (
        f"<style>{style}</style><defs>{definitions}</defs>"
        f'<svg y="{_BAR}" width="{width:.0f}" height="{height}"><g class="film">{"".join(pictures)}</g></svg>'
    )
    return _document(title, body, columns=columns, rows=rows)


def _document(title: str, body: str, *, columns: int, rows: int) -> str:
    width, height = columns * _CELL + 2 * _MARGIN, _BAR + rows * _LINE + 20
    light = _style(_LIGHT, page="#ffffff", edge="#d8dee4")
    dark = _style(_DARK, page="#0d1117", edge="#30363d")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" font-family="{_FONT}" font-size="14" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f"<style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>\n"
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>\n'
        f'<path class="bar" d="M0.5 {_BAR - 8}h{width - 1:.0f}v1h-{width - 1:.0f}z"/>\n'
        f'<text class="t" x="{width / 2:.0f}" y="18" font-size="12" text-anchor="middle">'
        f"{escape(title)}</text>\n"
        f"{body}\n</svg>\n"
    )


def _style(colors: Sequence[str], *, page: str, edge: str) -> str:
    names = "".join(f".c{number}{{fill:{color}}}" for number, color in enumerate(colors))
    return _STYLE.format(page=page, edge=edge, text=colors[0], dim=colors[7]).replace("\n", "") + names


def _row(line: Line, y: int) -> str:
    spans = "".join(_spans(line))
    return f'<text y="{y}">{spans}</text>' if spans else ""


def _spans(line: Line) -> Iterator[str]:
    """Yield pieces of equal style; each begins at its own column, so that columns are aligned in any font."""
    column = 0
    for names, cells in groupby(line, lambda cell: _classes(cell[1])):
        text = "".join(character for character, _ in cells)
        for run in _RUN.finditer(text):
            x = _MARGIN + (column + run.start()) * _CELL
            length = f' textLength="{len(run[0]) * _CELL:.1f}"' if len(run[0]) > 1 else ""
            shown = f' class="{names}"' if names else ""
            yield f'<tspan x="{x:.1f}"{length}{shown}>{escape(run[0], quote=False)}</tspan>'
        column += len(text)


def _classes(style: Style) -> str:
    names = ["b"] if style.bold else []
    if style.color is not None and style.color.number is not None:
        names.append(f"c{style.color.number % 8}")
    elif style.dim:
        names.append("d")
    return " ".join(names)
