"""`tritonstack invoke`: send texts to an endpoint and print the outputs."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from tritonstack.cli.completion import complete_deployable, complete_endpoint, complete_model
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.workflows.environments.invoke import Invocation
from tritonstack.workflows.environments.invoke import invoke as run


def invoke(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment.", autocompletion=complete_deployable)],
    endpoint: Annotated[
        str,
        typer.Argument(
            help="The endpoint, by its name in the environment file.", autocompletion=complete_endpoint
        ),
    ],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; by default the model's test inputs.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The model, on an endpoint that serves several.", autocompletion=complete_model),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="The variant, main or challenger; by default, by weight."),
    ] = None,
    name: NameOption = None,
) -> None:
    """Send texts to an endpoint through InvokeEndpoint, and print each output.

    Example: tritonstack invoke local minilm "A man is eating food." "Someone has a meal."
    """
    state: Context = context.obj
    answer = run(state, environment, endpoint, texts or (), instance=name, model=model, variant=variant)
    state.output.result(answer.to_json(), text="\n".join(_lines(answer)))


def _lines(answer: Invocation) -> list[str]:
    lines = []
    for name, array in answer.outputs.items():
        lines.append(f"{name}: {array.dtype}, shape {list(array.shape)}")
        for text, row in zip(answer.inputs, array, strict=True):
            flat = np.ravel(row)
            shown = " ".join(f"{number:8.4f}" for number in flat[:6])
            lines.append(f"  {shown}{' …' if flat.size > 6 else ''}  {text[:60]}")
    return lines
