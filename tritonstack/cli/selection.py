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
AccountOption = Annotated[
    str | None, typer.Option("--account", help="Its account, where there is no file of it any more.")
]
RegionOption = Annotated[
    str | None, typer.Option("--region", help="Its region, where there is no file of it any more.")
]
PrefixOption = Annotated[
    str | None, typer.Option("--prefix", help="Its name_prefix, where there is no file of it any more.")
]
