"""Print results to standard output and everything else to standard error.

A terminal shows live progress. With --json, standard output receives one JSON document, the result or
{"error": ...}, and standard error receives plain lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.text import Text

from tritonstack.base.errors import FileViolation, TritonstackError
from tritonstack.cli.progress import ConsoleStep, ConsoleSteps
from tritonstack.cli.rendering.text import HangingText, PrintableConsole, printable

_UNFOLDED = 10_000
"""Columns outside of a terminal."""
_STYLES = {
    r"^ *✓": "green",
    r"^ *✗": "bold red",
    r"^ *(error|rejected|failed):": "bold red",
    r"^ *warning:": "yellow",
    r"^ *help:": "bold cyan",
    r"`tritonstack [^`\n]+`": "cyan",
    r"(?<=next: )tritonstack .*": "cyan",
}


@dataclass(frozen=True)
class ErrorFacts:
    """Why a command failed."""

    code: str
    """A code that `tritonstack explain` explains."""
    message: str
    remedy: str | None
    exit_code: int
    failures: tuple[Any, ...]
    """Each failure, if a check found several."""
    violations: Sequence[FileViolation]
    """Each error in the project's files."""


@dataclass(frozen=True)
class ErrorDocument:
    """What every command prints if it fails."""

    error: ErrorFacts


@dataclass(frozen=True)
class Output:
    """The console output of a command."""

    as_json: bool = False
    results: Console = field(
        default_factory=lambda: PrintableConsole(soft_wrap=True, highlight=False, emoji=False)
    )
    notes: Console = field(
        default_factory=lambda: PrintableConsole(stderr=True, soft_wrap=True, highlight=False, emoji=False)
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
            self._print_json(error_document(error))

    def result(self, data: object, *, text: str | RenderableType, wrap: bool = False) -> None:
        """Print the result of a command: `data` as JSON, or `text`.

        Tables fit the terminal, as do lines of text with `wrap`; without it, they can be copied as they are.
        In pipes and files, lines are never folded.
        """
        if self.as_json:
            self._print_json(data)
        elif isinstance(text, str) and wrap and self.results.is_terminal:
            self.results.print(HangingText(_marked(text)), soft_wrap=False)
        elif isinstance(text, str):
            self.results.print(_marked(text))
        else:
            if not self.results.is_terminal:
                self.results.width = _UNFOLDED
            self.results.print(text, soft_wrap=False)

    @contextmanager
    def after_result(self) -> Iterator[None]:
        """Report an error after the result; with --json, the result stays the only document."""
        try:
            yield
        except TritonstackError as error:
            replace(self, as_json=False).error(error)
            raise typer.Exit(error.exit_code) from error

    def log_lines(self, lines: Iterable[tuple[str, str]]) -> None:
        """Print lines of logs, each with a prefix."""
        text = Text()
        for prefix, message in lines:
            text.append(f"{prefix} ", style="dim").append(f"{printable(message)}\n")
        self._print_once(text, end="")

    def json_lines(self, items: Iterable[object]) -> None:
        """Print one JSON document per line, for results without an end."""
        for item in items:
            self._print_once(Text(_json(item)))

    def piece(self, text: str) -> None:
        """Print a piece of a result that is still arriving."""
        self._print_once(Text(printable(text)), end="")

    def _print_json(self, data: object) -> None:
        text = _json(data, ensure_ascii=False)
        # The console's escapes are not those of JSON.
        self.results.print_json(text, ensure_ascii=not text.isprintable())

    def _print_once(self, text: Text, *, end: str = "\n") -> None:
        """Print results of a command that Ctrl-C ends.

        Console.print keeps what it has written until its next statement. If Ctrl-C arrives between the two,
        the next print writes it again.
        """
        with self.results.capture() as rendered:
            self.results.print(text, end=end)
        self.results.file.write(rendered.get())
        self.results.file.flush()

    def suggest(self, *commands: str, note: str = "") -> None:
        """Print the commands that usually follow, for a person who reads the result on a terminal."""
        if self.as_json or not commands or not self.results.is_terminal:
            return
        line = Text("next: ", style="dim")
        line.append(Text(" && ").join(Text(command, style="bold cyan") for command in commands))
        self.notes.print(line.append(f"  {note}" if note else "", style="dim"))

    @contextmanager
    def step(self, title: str) -> Iterator[ConsoleStep]:
        """Show a step: live on a terminal, and a line at the end if it took a second."""
        with self._steps.step(title) as step:
            yield step

    @contextmanager
    def steps(self) -> Iterator[ConsoleSteps]:
        """Show several parallel steps, each with its own line."""
        yield self._steps

    @cached_property
    def _steps(self) -> ConsoleSteps:
        return ConsoleSteps(self.notes)


def error_document(error: TritonstackError) -> ErrorDocument:
    """Return what `--json` prints for an error."""
    failures = tuple(getattr(error, "failures", ()))
    return ErrorDocument(
        ErrorFacts(error.code, error.message, error.remedy, error.exit_code, failures, error.violations)
    )


def _marked(text: str) -> Text:
    """Return text with colored marks at the start of its lines."""
    marked = Text(printable(text))
    for pattern, style in _STYLES.items():
        marked.highlight_regex(f"(?m){pattern}", style)
    return marked


def _json(result: object, *, ensure_ascii: bool = True) -> str:
    """Return JSON; numbers that it cannot write are null."""
    from tritonstack.base.results import document  # noqa: PLC0415 - the list of commands needs no pydantic

    data = document(result)
    try:
        return json.dumps(data, allow_nan=False, ensure_ascii=ensure_ascii)
    except ValueError:
        return json.dumps(_finite(data), ensure_ascii=ensure_ascii)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data
