"""`tritonstack init`: create a repository for models and environments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tritonstack.base.errors import shown_path
from tritonstack.cli.completion import complete_example
from tritonstack.cli.context import Context
from tritonstack.operate.project.repository import TUTORIAL, create_repository, examples


def init(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder, or a new git clone.")],
    example: Annotated[
        str | None,
        typer.Option(
            help=f"Add an example: {', '.join(examples())}.",
            show_default=False,
            autocompletion=complete_example,
        ),
    ] = None,
) -> None:
    """Create a repository for models and environments.

    The folder must be new or empty, or a git clone with at most a readme, a license, and a .gitignore. It
    gets the files that you edit; the tool stays in its package, so that upgrading changes only
    the version in requirements*.txt and the packages in requirements*.lock.txt: see `tritonstack upgrade`.

    Example: tritonstack init my-models --example python
    """
    state: Context = context.obj
    created = create_repository(folder, example=example)
    text = f"created {shown_path(created.folder)} with {len(created.files)} files"
    if created.kept:
        text += f"; kept {', '.join(created.kept)}"
    first = "`tritonstack setup`" if "README.md" in created.kept else "its README.md"
    if TUTORIAL in created.files:
        first += f", then {TUTORIAL}"
    state.output.result(created, text=f"{text}; next: {first}")
