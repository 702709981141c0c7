"""What commands print: results on standard output, everything else on standard error.

A person with a terminal sees progress as it happens; a machine that asked for --json gets one JSON
document on standard output, the result or {"error": ...}, and plain lines on standard error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from catalog.errors import InvalidFilesError, TritonstackError


@dataclass(frozen=True)
class Output:
    """Where a command's words go."""

    as_json: bool = False
    results: Console = field(default_factory=lambda: Console(soft_wrap=True, highlight=False, emoji=False))
    notes: Console = field(
        default_factory=lambda: Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    )

    def note(self, text: str) -> None:
        """One line about what is going on."""
        self.notes.print(escape(text))

    def error(self, error: TritonstackError) -> None:
        """What went wrong, and what to do."""
        self.notes.print(f"[bold red]error:[/] {escape(error.message)}")
        if error.remedy:
            self.notes.print(f"  [bold cyan]help:[/] {escape(error.remedy)}")
        if self.as_json:
            self.results.print_json(json.dumps({"error": _facts(error)}))

    def result(self, data: Mapping[str, Any], *, text: str | Table) -> None:
        """The outcome of a command: `data` for machines, `text` for people."""
        if self.as_json:
            self.results.print_json(json.dumps(data, default=str))
        else:
            self.results.print(text if isinstance(text, Table) else escape(text))

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Something that takes a while: a spinner on a terminal, a line when it is done."""
        step, started = Step(self, title), time.monotonic()
        with self.notes.status(escape(title)) as status:
            step.show = lambda text: status.update(escape(f"{title}: {text}"))
            yield step
        detail = f"  {step.detail}" if step.detail else ""
        seconds = time.monotonic() - started
        self.notes.print(f"[green]✓[/] {escape(title)}{escape(detail)} [dim]({seconds:.1f} s)[/]")


class Step:
    """A step under way."""

    def __init__(self, output: Output, title: str) -> None:
        self._output = output
        self.title = title
        self.detail = ""
        """What came of it, for the line that stays when it is done."""
        self.show: Callable[[str], None] = _ignore

    @property
    def watched(self) -> bool:
        """Whether somebody at a terminal sees what passes by."""
        return self._output.notes.is_terminal

    def update(self, text: str) -> None:
        """What the step is doing now; on a terminal only the latest is seen."""
        self.show(text)

    def log(self, text: str) -> None:
        """A line that stays."""
        self._output.note(f"  {text}")


def _facts(error: TritonstackError) -> dict[str, Any]:
    """An error for machines; `problems` holds each fault of the project's files."""
    problems = error.problems if isinstance(error, InvalidFilesError) else ()
    return {
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
        "problems": [{**asdict(problem), "file": str(problem.file)} for problem in problems],
    }


def _ignore(_: str) -> None:
    """Where there is no terminal, nobody sees what passes by."""
