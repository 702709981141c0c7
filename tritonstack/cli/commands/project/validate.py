"""`tritonstack validate`: check all files of the project, or of one environment."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.operate.project.validate import Validation
from tritonstack.operate.project.validate import validate as run


def validate(
    context: typer.Context,
    environment: Annotated[
        str | None, typer.Argument(help="Check this environment only.", autocompletion=complete_deployable)
    ] = None,
    name: NameOption = None,
    online: Annotated[
        bool, typer.Option("--online", help="Also ask the accounts: locks, images, quotas, zones.")
    ] = False,
) -> None:
    """Check models, environments, and locks; report each problem with file, line, and remedy.

    A lock must match the models, local manifests, other locks, and the git history of the environment that
    its artifacts were promoted from. --online also checks the archives, manifests, and images that it names,
    and the images, quotas, and zones that a deployment needs, if the account is reachable.

    Example: tritonstack validate dev --online
    """
    state: Context = context.obj
    validation = run(state, environment, instance=name, online=online)
    state.output.result(validation, text=_summary(validation))
    for unbuilt in validation.unbuilt:
        state.output.note(f"to build: {unbuilt}")
    for command in validation.next_commands:
        state.output.note(f"next: {command}")


def _summary(validation: Validation) -> str:
    text = f"valid: environments {', '.join(validation.environments) or 'none'}; "
    if validation.templates:
        text += f"templates {', '.join(validation.templates)}; "
    text += f"models {', '.join(validation.models) or 'none'}"
    if validation.not_deployable:
        text += f"; not deployable yet: {', '.join(validation.not_deployable)}"
    if validation.checked_online:
        text += f"; locks match their accounts in {', '.join(validation.checked_online)}"
    return text
