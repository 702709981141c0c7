"""Draw terminals with rich's own SVG export: stills, and films that scroll through a session."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tools.pictures.terminal import Recording, Screen

_FONT = "ui-monospace, 'JetBrains Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_FORMAT = (
    re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.S)
    .replace("Fira Code, monospace", _FONT)
    .replace("    {lines}\n", "")
)
"""Without the fonts of another host: pictures load nothing."""
_THEME = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (103, 212, 227),
        (177, 186, 196),
    ],
)
_LINE = 24.4
"""The height of a line in rich's export."""
_TYPING_S, _READING_S, _END_S = 1.0, 2.5, 6.0


def still(recording: Recording, *, columns: int, title: str) -> str:
    """Draw a terminal after a command."""
    screen = Screen(columns)
    screen.write(_prompt(recording.command) + recording.text)
    return _export(screen.lines(), columns, title)


def film(recordings: Sequence[Recording], *, columns: int, rows: int, title: str) -> str:
    """Draw a terminal that shows each command, then its output, without end.

    One picture of all lines moves up as they are printed, and a curtain hides the later ones. Viewers without
    motion, and readers who prefer none, see the last lines.
    """
    screen = Screen(columns)
    steps: list[tuple[int, float]] = []
    for recording in recordings:
        screen.write(_prompt(recording.command))
        steps.append((len(screen.lines()), _TYPING_S))
        screen.write(recording.text)
        steps.append((len(screen.lines()), _READING_S))
    steps[-1] = (steps[-1][0], _END_S)
    window = _FORMAT.replace("{styles}", "{styles}\0").replace("{backgrounds}", "\0")
    head, before, after = _export([Text()] * rows, columns, title, window).split("\0")
    parts = '{styles}\0{backgrounds}<g class="{unique_id}-matrix">{matrix}</g>'
    styles, lines = _export(screen.lines(), columns, title, parts).split("\0")
    styles += _animation("up", [(-_LINE * max(count - rows, 0), seconds) for count, seconds in steps])
    styles += _animation("down", [(_LINE * min(count, rows), seconds) for count, seconds in steps])
    styles += "@media (prefers-reduced-motion: reduce) {.up, .down {animation: none}}"
    curtain = f'<rect class="down" width="100%" height="100%" fill="{_THEME.background_color.hex}"/>'
    return f'{head}{styles}{before}<g class="up">{lines}</g>{curtain}{after}'


def _prompt(command: str) -> str:
    return f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n"


def _export(lines: Sequence[Text], columns: int, title: str, code_format: str = _FORMAT) -> str:
    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    svg = console.export_svg(title=title, theme=_THEME, code_format=code_format, unique_id="t")
    svg = re.sub(r' clip-path="url\(#t-line-\d+\)"', "", svg)
    return svg.replace(
        "<!-- Generated with Rich https://www.textualize.io -->", f"<title>{escape(title)}</title>"
    )


def _animation(name: str, steps: Sequence[tuple[float, float]]) -> str:
    """Return the style of a class that moves in steps, and rests at the last one."""
    total, at, frames = sum(seconds for _, seconds in steps), 0.0, []
    for move, seconds in steps:
        frames.append(f"{at / total:.2%} {{transform: translateY({move:.1f}px)}}")
        at += seconds
    last = f"translateY({steps[-1][0]:.1f}px)"
    return (
        f"@keyframes {name} {{{' '.join(frames)} 100% {{transform: {last}}}}}"
        f".{name} {{transform: {last}; animation: {name} {total:.1f}s step-end infinite}}"
    )
