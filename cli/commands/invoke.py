"""`tritonstack invoke`: send texts to an endpoint and show what it answers."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from catalog.documents import closest
from catalog.environments import EnvironmentSpec
from catalog.errors import UsageError
from catalog.workspace import load_workspace
from cli.context import Context
from endpoint_client import EndpointClient


def invoke(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment.")],
    endpoint: Annotated[str, typer.Argument(help="The endpoint, by its name in the environment file.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; by default the model's test inputs.")
    ] = None,
) -> None:
    """Invoke an endpoint with texts, through InvokeEndpoint, and print each output.

    Example: tritonstack invoke local minilm "A man is eating food." "Someone has a meal."
    """
    state: Context = context.obj
    workspace = load_workspace(state.project, environment)
    spec = workspace.spec
    _require_endpoint(spec, endpoint)
    model = workspace.models[spec.endpoints[endpoint].models[0]].record
    values = list(texts or model.test_inputs)
    client = EndpointClient(
        endpoint_name=spec.endpoint_name(endpoint), runtime=state.cloud(spec).client("sagemaker-runtime")
    )
    outputs = _infer(client, values, max_batch=model.batching.max_batch)
    state.output.result(
        {"inputs": values, "outputs": {name: array.tolist() for name, array in outputs.items()}},
        text="\n".join(_lines(values, outputs)),
    )


def _require_endpoint(spec: EnvironmentSpec, endpoint: str) -> None:
    if endpoint not in spec.endpoints:
        suggestion = closest(endpoint, spec.endpoints)
        raise UsageError(
            f"environment {spec.name!r} has no endpoint {endpoint!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"it has: {', '.join(spec.endpoints)}",
        )


def _infer(client: EndpointClient, values: list[str], *, max_batch: int) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs for all texts, in as many requests as the model's largest batch makes necessary."""
    answers = [
        client.infer({"TEXT": np.array([[value] for value in batch], dtype=object)})
        for batch in (values[begin : begin + max_batch] for begin in range(0, len(values), max_batch))
    ]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


def _lines(values: list[str], outputs: dict[str, np.ndarray[Any, Any]]) -> list[str]:
    lines = []
    for name, array in outputs.items():
        lines.append(f"{name}: {array.dtype}, shape {list(array.shape)}")
        for value, row in zip(values, array, strict=True):
            flat = np.ravel(row)
            shown = " ".join(f"{number:8.4f}" for number in flat[:6])
            lines.append(f"  {shown}{' …' if flat.size > 6 else ''}  {value[:60]}")
    return lines
