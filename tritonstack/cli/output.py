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

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tritonstack.base.errors import InvalidFilesError, TritonstackError


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
    def step(self, title: str) -> Iterator[ConsoleStep]:
        """Something that takes a while: a spinner on a terminal, a line when it is done."""
        with self.steps() as side_by_side, side_by_side.step(title) as step:
            yield step

    @contextmanager
    def steps(self) -> Iterator[ConsoleSteps]:
        """Several such things at once, each with a line of its own while it goes on."""
        steps = ConsoleSteps(self)
        if not self.notes.is_terminal:
            yield steps
            return
        with Live(get_renderable=steps.spinners, console=self.notes, transient=True, refresh_per_second=8):
            yield steps


class ConsoleSteps:
    """ConsoleSteps that go on side by side, in threads if need be."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._under_way: dict[ConsoleStep, Spinner] = {}

    @contextmanager
    def step(self, title: str, *, label: str = "") -> Iterator[ConsoleStep]:
        """One of them; `label` tells its lines from those of the others."""
        step, started = ConsoleStep(self._output, title, label), time.monotonic()
        spinner = self._under_way[step] = Spinner("dots", Text(title), style="status.spinner")
        step.show = lambda text: spinner.update(text=Text(f"{title}: {text}"))
        try:
            yield step
        finally:
            del self._under_way[step]
        mark = "[red]✗[/]" if step.failed else "[green]✓[/]"
        detail = f"  {step.detail}" if step.detail else ""
        seconds = time.monotonic() - started
        self._output.notes.print(f"{mark} {escape(title)}{escape(detail)} [dim]({seconds:.1f} s)[/]")

    def spinners(self) -> Group:
        """What a terminal shows while they go on."""
        return Group(*tuple(self._under_way.values()))


class ConsoleStep:
    """A step under way."""

    def __init__(self, output: Output, title: str, label: str = "") -> None:
        self._output = output
        self._label = f"{label}: " if label else ""
        self.title = title
        self.detail = ""
        """What came of it, for the line that stays when it is done."""
        self.failed = False
        """Whether it ended badly, where others go on; what went wrong is said when all have ended."""
        self.show: Callable[[str], None] = _ignore

    @property
    def interactive(self) -> bool:
        """Whether somebody at a terminal sees what passes by."""
        return self._output.notes.is_terminal

    def update(self, text: str) -> None:
        """What the step is doing now; on a terminal only the latest is seen."""
        self.show(text)

    def log(self, text: str) -> None:
        """A line that stays."""
        self._output.note(f"  {self._label}{text}")


def _facts(error: TritonstackError) -> dict[str, Any]:
    """An error for machines; `problems` holds each fault of the project's files."""
    problems = error.problems if isinstance(error, InvalidFilesError) else ()
    return {
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
        **({"failures": failures} if (failures := getattr(error, "failures", ())) else {}),
        "problems": [{**asdict(problem), "file": str(problem.file)} for problem in problems],
    }


def _ignore(_: str) -> None:
    """Where there is no terminal, nobody sees what passes by."""
