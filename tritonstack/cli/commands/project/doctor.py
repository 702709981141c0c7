"""`tritonstack doctor`: report what is missing."""

from __future__ import annotations

from dataclasses import asdict

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
    checks = check_project(state.project)
    lines = [
        f"{'missing' if check.remedy else 'ok':8}{check.name}: {check.detail}"
        + (f"\n  help: {check.remedy}" if check.remedy else "")
        for check in checks
    ]
    missing = [check.name for check in checks if check.remedy]
    data = {"ok": not missing, "checks": [asdict(check) for check in checks]}
    state.output.result(data, text="\n".join(lines))
    if missing:
        raise typer.Exit(1)
