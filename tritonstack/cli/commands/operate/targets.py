"""`tritonstack targets`: show the model names of multi-model endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_endpoint
from tritonstack.cli.context import Context
from tritonstack.cli.selection import EnvironmentArgument, NameOption
from tritonstack.operate.status.targets import Targets
from tritonstack.operate.status.targets import targets as run


def targets(
    context: typer.Context,
    environment: EnvironmentArgument,
    endpoint: Annotated[
        str | None,
        typer.Argument(
            help="The endpoint, by its name in the environment file (default: all multi-model endpoints).",
            autocompletion=complete_endpoint,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the endpoint's names to this JSON file.", metavar="FILE"),
    ] = None,
    name: NameOption = None,
) -> None:
    """Show the models of multi-model endpoints, and the TargetModel of each.

    A deploy publishes the names in SSM parameters, where clients read them. Models whose locked artifact is
    not published yet are marked.

    Example: tritonstack targets prod shop

    Example: tritonstack targets prod shop --output shop-models.json
    """
    state: Context = context.obj
    result = run(state, environment, endpoint, instance=name, output=output)
    if output is not None:
        state.output.note(f"wrote {output}")
    state.output.result(result, text="\n".join(_lines(result)))


def _lines(result: Targets) -> Iterator[str]:
    for endpoint in result.endpoints.values():
        yield f"{endpoint.endpoint}: names at {endpoint.path}"
        width = max((len(model) for model in endpoint.targets), default=0)
        for model, target in endpoint.targets.items():
            yield f"  {model:{width}}  {target}"
        for model in endpoint.pending:
            state = "the lock names another artifact" if model in endpoint.targets else "not published"
            yield f"  {model}: {state}; run `tritonstack deploy {result.environment}`"
