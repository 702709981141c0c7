"""How commands are told which environment is meant: its name, and `--name` for an instance of a template."""

from __future__ import annotations

from typing import Annotated

import typer

NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", help="The name of the instance, where the environment is a template.", metavar="NAME"
    ),
]
