"""The text of `--help`: examples that can be copied, and colors on a terminal."""

from __future__ import annotations

import os
import re
from typing import Any

import typer
from typer.core import TyperCommand

WIDTH = 100
"""The longest lines, on a terminal that is at least as wide."""
_HEADING = re.compile(r"^(?P<name>[A-Z][A-Za-z ]*:)(?P<rest>( tritonstack .*)?)$")
_ENTRY = re.compile(r"^(?P<indent>  )(?P<name>\S.*?)(?P<gap>  +)(?P<text>\S.*)$")
_LONG_ENTRY = re.compile(r"^  (-|[a-z]).*$")
_EXAMPLE = re.compile(r"^    tritonstack ")
_VERBATIM = "\b\n"
"""Keeps the line breaks of the paragraph that follows."""


class HelpfulCommand(TyperCommand):
    """A command with examples that are not wrapped."""

    def get_help(self, ctx: Any) -> str:
        """Return the help, with colors that `typer` removes outside of a terminal."""
        text, self.help = self.help, with_examples(self.help or "")
        try:
            return styled_help(super().get_help(ctx))
        finally:
            self.help = text


def with_examples(text: str) -> str:
    """Gather the paragraphs `Example: COMMAND` in one list whose lines are not wrapped."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
    prose = [part for part in paragraphs if not part.startswith("Example: ")]
    examples = [part.removeprefix("Example: ") for part in paragraphs if part.startswith("Example: ")]
    if not examples:
        return "\n\n".join(prose)
    title = "Example:" if len(examples) == 1 else "Examples:"
    return "\n\n".join([*prose, f"{_VERBATIM}{title}\n" + "\n".join(f"  {example}" for example in examples)])


def styled_help(text: str) -> str:
    """Return help with bold headings and colored names; NO_COLOR and simple terminals get plain text."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    lines, in_list = [], False
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        in_list = heading["name"] != "Usage:" if heading else in_list
        lines.append(_styled_line(line, in_list=in_list))
    return "\n".join(lines)


def _styled_line(line: str, *, in_list: bool) -> str:
    if heading := _HEADING.match(line):
        return typer.style(heading["name"], bold=True) + heading["rest"]
    if in_list and (entry := _ENTRY.match(line)):
        return f"  {typer.style(entry['name'], fg='cyan')}{entry['gap']}{entry['text']}"
    if (in_list and _LONG_ENTRY.match(line)) or _EXAMPLE.match(line):
        return typer.style(line, fg="cyan")
    return line
