"""Text whose continued lines are indented."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tritonstack.cli.rendering.printable import printable_text

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
