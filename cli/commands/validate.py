"""`tritonstack validate`: check every file of the project, or of one environment, without a call to AWS."""

from __future__ import annotations

from typing import Annotated

import typer

from catalog.errors import InvalidFilesError
from catalog.fitness import unbuilt
from catalog.loading import environment_names, load_workspace, model_names, validate_project
from cli.context import Context


def validate(
    context: typer.Context,
    environment: Annotated[str | None, typer.Argument(help="Check this environment only.")] = None,
) -> None:
    """Check the project's files: models, environments and locks, each fault with file, line and remedy.

    Example: tritonstack validate dev
    """
    state: Context = context.obj
    if environment is None:
        problems = validate_project(state.project)
        if problems:
            raise InvalidFilesError(problems)
        names = environment_names(state.project)
    else:
        names = [environment]
    to_build = [str(problem) for name in names for problem in unbuilt(load_workspace(state.project, name))]
    for text in to_build:
        state.output.note(f"to build: {text}")
    models = model_names(state.project)
    state.output.result(
        {"valid": True, "environments": names, "models": models, "unbuilt": to_build},
        text=f"valid: environments {', '.join(names)}; models {', '.join(models)}",
    )
