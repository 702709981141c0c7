"""`tritonstack delivery`: show the delivery order, for people and for workflows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tritonstack.base.results import document
from tritonstack.cli.context import Context
from tritonstack.operate.project.delivery import DeliveryPlan
from tritonstack.operate.project.delivery import delivery as run


def delivery(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="The last deployed commit; by default, all are affected."),
    ] = None,
    as_outputs: Annotated[
        bool, typer.Option("--as-outputs", help="Print lines for a workflow's outputs.")
    ] = False,
) -> None:
    """Show the delivery order, the roles, and the environments that a change affects.

    Every change affects the first environment; others are affected if their own lock or file changed.
    No AWS call is made.

    Example: tritonstack delivery --since HEAD~1
    """
    state: Context = context.obj
    plan = run(state, since=since)
    state.output.result(plan, text="\n".join(_outputs(document(plan)) if as_outputs else _lines(plan)))


def _outputs(data: dict[str, Any]) -> list[str]:
    """Return one line `name=value` per output, in the format of GITHUB_OUTPUT."""
    return [f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in data.items()]


def _lines(plan: DeliveryPlan) -> list[str]:
    spec = plan.spec
    lines = [f"{spec.repository}, branch {spec.branch}"]
    for stage in plan.stages:
        effect = "affected" if stage.affected else "not affected"
        approval = "; deploys after approval" if stage.approval else ""
        lines.append(f"{stage.name} ({stage.account}, {stage.region}): {effect}{approval}")
        lines += _roles(stage.roles)
    if spec.previews:
        lines.append(
            f"per pull request: {spec.previews.name_prefix}-<number>, an instance of "
            f"{spec.previews.template}, for {spec.previews.ttl}"
        )
    return lines


def _roles(roles: Mapping[str, str]) -> list[str]:
    width = max(map(len, roles), default=0)
    return [f"  {name:{width}}  {arn}" for name, arn in roles.items()]
