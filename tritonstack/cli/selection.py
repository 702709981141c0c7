"""Options that select an environment: its name, and `--name` for an instance of a template."""

from __future__ import annotations

from typing import Annotated

import typer

NameOption = Annotated[
    str | None,
    typer.Option("--name", help="The instance's name, if the environment is a template.", metavar="NAME"),
]
AccountOption = Annotated[
    str | None, typer.Option("--account", help="Its account, if its file no longer exists.")
]
RegionOption = Annotated[
    str | None, typer.Option("--region", help="Its region, if its file no longer exists.")
]
PrefixOption = Annotated[
    str | None, typer.Option("--prefix", help="Its name_prefix, if its file no longer exists.")
]
