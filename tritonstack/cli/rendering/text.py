"""Escape control characters: text of other people and of models must not control the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text


class PrintableConsole(Console):
    """A console that escapes control characters in whatever it prints, except its own codes."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text without control characters, whose width is then right."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render without control characters of the text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def printable(text: str) -> str:
    """Return text with escapes such as `\\x1b` for what is not printable; line ends and tabs stay."""
    return (
        text
        if text.isprintable()
        else "".join(character if _is_shown(character) else _escaped(character) for character in text)
    )


def printable_text(text: Text) -> Text:
    """Return text with escapes and its styles, for widths that depend on what is shown."""
    return text if all(map(_is_shown, text.plain)) else text.blank_copy().join(_parts(text))


def _parts(text: Text) -> Iterator[Text]:
    begin = 0
    for is_shown, characters in groupby(text.plain, _is_shown):
        end = begin + len(list(characters))
        part = text[begin:end]
        if is_shown:
            yield part
        else:
            yield Text(printable(part.plain), part.spans[0].style if part.spans else "")
        begin = end


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in "\n\t"


def _escaped(character: str) -> str:
    return ascii(character)[1:-1]


_INDENT, _LEAST = 2, 20


@dataclass(frozen=True)
class HangingText:
    """Text that is wrapped at words; a continued line begins further to the right than its first one."""

    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render in the width of the console."""
        for line in printable_text(self.text).split("\n", allow_blank=True):
            yield from self._wrapped(line, console, options.max_width)

    @staticmethod
    def _wrapped(line: Text, console: Console, width: int) -> Iterator[Text]:
        indent = len(line.plain) - len(line.plain.lstrip())
        rest = line[indent:]
        parts = rest.wrap(console, max(width - indent - _INDENT, _LEAST), overflow="fold")
        for number, part in enumerate(parts or [rest]):
            yield Text(" " * (indent + _INDENT * (number > 0))).append_text(part)
