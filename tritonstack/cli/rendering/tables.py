"""Tables that use the width of the terminal, and leave out what matters least on a narrow one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tritonstack.cli.rendering.text import printable, printable_text

MARKS = {"good": Text("✓", "green"), "new": Text("+", "green"), "change": Text("~", "yellow")}
MARKS |= {"attention": Text("!", "bold yellow"), "bad": Text("✗", "bold red"), "none": Text(" ")}
"""The first column of a row, which says how it stands."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    justify: Literal["left", "right"] = "left"
    least_width: int = 0
    """The table is shown without this column on a terminal with fewer columns than this; 0: never."""


@dataclass(frozen=True)
class FittedTable:
    """A table without lines; columns without a title in all of them give no header."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Text]]
    indent: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render without the columns that a narrow terminal has no room for."""
        room = options.max_width - self.indent
        shown = list(range(len(self.columns)))
        order = sorted((index for index in shown if self.columns[index].least_width), key=self._least_width)
        while (
            order
            and Measurement.get(console, options.update(width=10_000), self._table(shown)).maximum > room
        ):
            shown.remove(order.pop())
        lines = console.render_lines(self._table(shown), options.update(width=room), pad=False)
        for line in lines:
            if segments := list(_without_end(line)):
                yield Segment(" " * self.indent)
                yield from segments
            yield Segment.line()

    def _least_width(self, column: int) -> int:
        return self.columns[column].least_width

    def _table(self, shown: Sequence[int]) -> Table:
        columns = [self.columns[index] for index in shown]
        has_header = any(column.title for column in columns)
        table = Table(
            box=None, padding=(0, 2, 0, 0), show_edge=False, show_header=has_header, header_style="dim"
        )
        for column in columns:
            table.add_column(column.title, justify=column.justify, overflow="fold")
        for row in self.rows:
            table.add_row(*(_cell(row[index]) for index in shown))
        return table


def _cell(value: str | Text) -> Text:
    return printable_text(value) if isinstance(value, Text) else Text(printable(value))


def _without_end(line: Sequence[Segment]) -> Iterator[Segment]:
    """Yield the segments of a line without blanks at its end."""
    rest = list(dropwhile(lambda segment: not segment.text.strip(), reversed(line)))[::-1]
    yield from rest[:-1]
    yield from (Segment(segment.text.rstrip(), segment.style) for segment in rest[-1:])


def number_table(titles: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> FittedTable:
    """Return a table of numbers whose first column names the row."""
    columns = [Column(title, "right" if index else "left") for index, title in enumerate(titles)]
    return FittedTable(columns, rows)
