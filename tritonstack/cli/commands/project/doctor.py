"""`tritonstack doctor`: report what is missing."""

from __future__ import annotations

import typer

from tritonstack.cli.context import Context
from tritonstack.workflows.installation.doctor import doctor as run


def doctor(context: typer.Context) -> None:
    """Report what is missing and how to get it.

    Checks the extras, Node, the CDK CLI, the embedded Triton server, and git. Exits with code 1 if a part
    that every deployment needs is missing. Optional parts build models on this machine, run the local cloud,
    or read the git history.

    Example: tritonstack doctor
    """
    state: Context = context.obj
    installation = run(state)
    lines = [
        f"{check.state:10}{check.name}: {check.detail}"
        + (f"\n  help: {check.remedy}" if check.remedy else "")
        for check in installation.checks
    ]
    state.output.result(installation.to_json(), text="\n".join(lines))
    if not installation.complete:
        raise typer.Exit(1)
