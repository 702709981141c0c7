"""Describe the command line by its own declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from tools.reference.markdown import code, table
from tritonstack.cli.registry import GROUPS, load_command


def sections() -> Iterator[str]:
    """Yield a section per command, by group."""
    for group, names in GROUPS.items():
        yield f"## {group}"
        for name in names:
            command = load_command(name)
            yield _section(name, command)
            for inner, subcommand in getattr(command, "commands", {}).items():
                yield _section(f"{name} {inner}", subcommand)


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=f"tritonstack {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    paragraphs = [" ".join(text.split()) for text in re.split(r"\n\s*\n", (command.help or "").strip())]
    examples = [text.removeprefix("Example: ") for text in paragraphs if text.startswith("Example: ")]
    rows = [row for parameter in command.get_params(context) if (row := _row(parameter, context))]
    parts = [
        f"### {name}",
        f"```text\n{' '.join(usage.split())}\n```",
        *(text.replace("<", "&lt;") for text in paragraphs if not text.startswith("Example: ")),
        table(("parameter", "meaning"), rows),
        "Examples:\n\n```text\n{}\n```".format("\n".join(examples)) if examples else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _row(parameter: Any, context: typer.Context) -> tuple[str, str] | None:
    record = parameter.get_help_record(context)
    if record is None or parameter.name == "help":
        return None
    return code(record[0]), record[1]
