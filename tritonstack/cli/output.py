"""Print results to standard output and everything else to standard error.

A terminal shows live progress. With --json, standard output receives one JSON document, the result or
{"error": ...}, and standard error receives plain lines.
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

from tritonstack.base.errors import TritonstackError


@dataclass(frozen=True)
class Output:
    """The console output of a command."""

    as_json: bool = False
    results: Console = field(default_factory=lambda: Console(soft_wrap=True, highlight=False, emoji=False))
    notes: Console = field(
        default_factory=lambda: Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    )

    def note(self, text: str) -> None:
        """Print a line of information."""
        self.notes.print(escape(text))

    def error(self, error: TritonstackError) -> None:
        """Print an error and its remedy."""
        self.notes.print(f"[bold red]{escape(error.heading)}:[/] {escape(error.coded_message)}")
        if error.remedy:
            self.notes.print(f"  [bold cyan]help:[/] {escape(error.remedy)}")
        if self.as_json:
            self.results.print_json(json.dumps({"error": _facts(error)}))

    def result(self, data: Mapping[str, Any], *, text: str | Table) -> None:
        """Print the result of a command: `data` as JSON, or `text`."""
        if self.as_json:
            self.results.print_json(json.dumps(data, default=str))
        else:
            self.results.print(text if isinstance(text, Table) else escape(text))

    @contextmanager
    def step(self, title: str) -> Iterator[ConsoleStep]:
        """Show a step: a spinner on a terminal, a line at the end."""
        with self.steps() as side_by_side, side_by_side.step(title) as step:
            yield step

    @contextmanager
    def steps(self) -> Iterator[ConsoleSteps]:
        """Show several parallel steps, each with its own line."""
        steps = ConsoleSteps(self)
        if not self.notes.is_terminal:
            yield steps
            return
        with Live(get_renderable=steps.spinners, console=self.notes, transient=True, refresh_per_second=8):
            yield steps


class ConsoleSteps:
    """Parallel steps, which may run in threads."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._under_way: dict[ConsoleStep, Spinner] = {}

    @contextmanager
    def step(self, title: str, *, label: str = "") -> Iterator[ConsoleStep]:
        """Show one step; `label` marks its lines."""
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
        """Return the spinners of all running steps."""
        return Group(*tuple(self._under_way.values()))


class ConsoleStep:
    """A running step."""

    def __init__(self, output: Output, title: str, label: str = "") -> None:
        self._output = output
        self._label = f"{label}: " if label else ""
        self.title = title
        self.detail = ""
        """The result, for the line that remains."""
        self.failed = False
        """Whether it failed while others continue; the errors are reported at the end."""
        self.show: Callable[[str], None] = _ignore

    @property
    def interactive(self) -> bool:
        """Return whether a terminal shows live updates."""
        return self._output.notes.is_terminal

    def update(self, text: str) -> None:
        """Show the current state; a terminal shows only the latest."""
        self.show(text)

    def log(self, text: str) -> None:
        """Print a line that remains."""
        self._output.note(f"  {self._label}{text}")


def _facts(error: TritonstackError) -> dict[str, Any]:
    """Return an error as JSON data; `violations` lists each violation of the project's files."""
    return {
        "code": error.code,
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
        **({"failures": failures} if (failures := getattr(error, "failures", ())) else {}),
        "violations": [{**asdict(violation), "file": str(violation.file)} for violation in error.violations],
    }


def _ignore(_: str) -> None:
    """Ignore updates without a terminal."""
