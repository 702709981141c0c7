"""`tritonstack doctor`: report what is missing."""

from __future__ import annotations

import typer

from tritonstack.cli.context import Context
from tritonstack.workflows.installation.doctor import check_project


def doctor(context: typer.Context) -> None:
    """Report what is missing and how to get it.

    Checks the extras, Node, the CDK CLI, the embedded Triton server, and git. Exits with code 1 if something
    is missing.

    Example: tritonstack doctor
    """
    state: Context = context.obj
    installation = check_project(state.project)
    lines = [
        f"{'ok' if check.installed else 'missing':8}{check.name}: {check.detail}"
        + (f"\n  help: {check.remedy}" if check.remedy else "")
        for check in installation.checks
    ]
    state.output.result(installation.to_json(), text="\n".join(lines))
    if not installation.complete:
        raise typer.Exit(1)
