"""`tritonstack delivery`: the road of a change, for people and for workflows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tritonstack.cli.context import Context
from tritonstack.operations.delivery_routes import Stop, asked_for, changed_since, stops
from tritonstack.project.loading import load_workspace
from tritonstack.spec.environments.delivery import DeliverySpec, require_delivery


def delivery(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Deployed last; by default all environments are asked for."),
    ] = None,
    as_outputs: Annotated[
        bool, typer.Option("--as-outputs", help="Print lines for a workflow's outputs.")
    ] = False,
) -> None:
    """Say by which road a change reaches the environments, who carries it, and which ones it asks for.

    The first environment takes every change; each other one waits for a change of its own lock or file.
    Nothing is asked of AWS.

    Example: tritonstack delivery --since HEAD~1
    """
    state: Context = context.obj
    spec = require_delivery(state.project).record
    environments = [load_workspace(state.project, name).spec for name in spec.names]
    asked = asked_for(spec, changed_since(state.project, since))
    road = stops(spec, environments, asked)
    facts = _facts(spec, road)
    state.output.result(facts, text="\n".join(_outputs(facts) if as_outputs else _lines(spec, road)))


def _facts(spec: DeliverySpec, road: Sequence[Stop]) -> dict[str, Any]:
    previews = spec.previews
    beside = next((stop for stop in road if previews and stop.name == previews.environment), None)
    return {
        "repository": spec.repository,
        "branch": spec.branch,
        "environments": list(spec.names),
        "asked": [stop.name for stop in road if stop.asked],
        "road": {stop.name: stop.facts() for stop in road},
        "previews": {
            **previews.model_dump(),
            "account": beside.account,
            "region": beside.region,
            "roles": beside.roles,
        }
        if previews and beside
        else None,
    }


def _outputs(facts: dict[str, Any]) -> list[str]:
    """One line each, as GitHub reads them: name=value."""
    return [f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in facts.items()]


def _lines(spec: DeliverySpec, road: Sequence[Stop]) -> list[str]:
    lines = [f"{spec.repository}, branch {spec.branch}"]
    for stop in road:
        what = "is asked for" if stop.asked else "waits for a change of its own"
        approval = ", after an approval" if stop.approval else ""
        lines.append(f"{stop.name} ({stop.account}, {stop.region}) {what}{approval}")
    if spec.previews:
        lines.append(
            f"each pull request gets {spec.previews.name_prefix}-<number> of {spec.previews.template} for "
            f"{spec.previews.ttl}"
        )
    return lines
