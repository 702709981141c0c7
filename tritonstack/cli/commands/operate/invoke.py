"""`tritonstack invoke`: send texts or a stored example to an endpoint, and print the outputs."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from tritonstack.cli.completion import complete_deployable, complete_endpoint, complete_model
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.workflows.environments.invoke import Invocation, as_text
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

    Without texts, sends the model's test inputs; to a model without text input, the first example that its
    build stored.

    Example: tritonstack invoke local minilm "A man is eating food." "Someone has a meal."
    """
    state: Context = context.obj
    answer = run(state, environment, endpoint, texts or (), instance=name, model=model, variant=variant)
    state.output.result(answer.to_json(), text="\n".join(_lines(answer)))


def _lines(answer: Invocation) -> list[str]:
    lines = []
    for name, array in answer.outputs.items():
        lines.append(f"{name}: {array.dtype}, shape {list(array.shape)}")
        if isinstance(answer.inputs, tuple):
            rows = zip(answer.inputs, array, strict=True)
            lines += [f"  {_values(row)}  {text[:60]}" for text, row in rows]
        else:
            lines.append(f"  {_values(array)}")
    return lines


def _values(array: np.ndarray[Any, Any]) -> str:
    values = np.ravel(as_text(array))
    shown = " ".join(f"{value:8.4f}" if values.dtype.kind == "f" else str(value) for value in values[:6])
    return f"{shown}{' …' if values.size > 6 else ''}"
