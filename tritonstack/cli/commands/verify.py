"""`tritonstack verify`: prove that what runs is what the checked-out commit asks for."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.base.documents import closest
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.cli.verdict_text import verdict_lines
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.workspace import Workspace
from tritonstack.workflows.verify import verify_workspace


def verify(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to verify.")],
    name: NameOption = None,
    endpoint: Annotated[
        list[str] | None, typer.Option("--endpoint", help="This endpoint alone; may be given again.")
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke/--no-smoke", help="Send requests to endpoints.")] = True,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Write the verdict to the environment's bucket.")
    ] = True,
    wait: Annotated[bool, typer.Option("--wait", help="Wait first for what is still going on.")] = False,
) -> None:
    """Compare what runs with what the checked-out files ask for, ask every model, and write down the verdict.

    An endpoint that went back to what it had before, or was changed by hand, looks well and is not what was
    asked for; an alarm that rings, a model that answers otherwise than its build did, are faults as well.
    Exit code 1 if anything is wrong. --no-smoke --no-record needs the right to read and nothing else; only
    a verdict with answers counts as verified.

    Example: tritonstack verify prod --endpoint search
    """
    state: Context = context.obj
    workspace = state.workspace(environment, name)
    if problems := unbuilt(workspace):
        raise InvalidFilesError(problems)
    _require_known(workspace, endpoint or [])
    verdict = verify_workspace(
        state,
        workspace,
        state.cloud(workspace.spec),
        endpoints=endpoint,
        smoke=smoke,
        record=record,
        wait=wait,
    )
    state.output.result(verdict.facts(), text="\n".join(verdict_lines(verdict)))
    if not verdict.passed:
        raise typer.Exit(1)


def _require_known(workspace: Workspace, endpoints: list[str]) -> None:
    known = list(workspace.spec.endpoints)
    for name in endpoints:
        if name not in known:
            suggestion = closest(name, known)
            raise UsageError(
                f"environment {workspace.spec.name!r} has no endpoint {name!r}",
                remedy=f"did you mean '{suggestion}'?" if suggestion else f"it has: {', '.join(known)}",
            )
