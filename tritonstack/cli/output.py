"""Print results to standard output and everything else to standard error.

A terminal shows live progress. With --json, standard output receives one JSON document, the result or
{"error": ...}, and standard error receives plain lines.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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

    def result(self, data: Mapping[str, Any], *, text: str | Table | Group) -> None:
        """Print the result of a command: `data` as JSON, or `text`."""
        if self.as_json:
            self.results.print_json(_json(data))
        else:
            self.results.print(escape(text) if isinstance(text, str) else text)

    def log_lines(self, lines: Iterable[tuple[str, str]]) -> None:
        """Print lines of logs, each with a prefix. Control characters are escaped for terminals."""
        text = Text()
        for prefix, message in lines:
            text.append(f"{prefix} ", style="dim").append(f"{_printable(message)}\n")
        self._print_once(text, end="")

    def json_lines(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Print one JSON document per line, for results without an end."""
        for item in items:
            self._print_once(Text(_json(item)))

    def piece(self, text: str) -> None:
        """Print a piece of a result that is still arriving. Control characters are escaped for terminals."""
        self._print_once(Text(_printable(text)), end="")

    def _print_once(self, text: Text, *, end: str = "\n") -> None:
        """Print results of a command that Ctrl-C ends.

        Console.print keeps what it has written until its next statement. If Ctrl-C arrives between the two,
        the next print writes it again.
        """
        with self.results.capture() as rendered:
            self.results.print(text, end=end)
        self.results.file.write(rendered.get())
        self.results.file.flush()

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


def _json(data: Mapping[str, Any]) -> str:
    """Return JSON; numbers that it cannot write are null."""
    try:
        return json.dumps(data, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), default=str)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


def _ignore(_: str) -> None:
    """Ignore updates without a terminal."""
