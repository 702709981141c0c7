"""`tritonstack invoke`: send texts to an endpoint and show what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from tritonstack.base import naming
from tritonstack.base.documents import closest
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.cli.completion import complete_deployable, complete_endpoint, complete_model
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.client import EndpointClient
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.workspace import Workspace
from tritonstack.spec.endpoints.endpoint import EndpointSpec, MultiModelEndpoint, Variant
from tritonstack.spec.models.model import ModelSpec


@dataclass(frozen=True)
class Addressee:
    """Who is to answer: an endpoint, and of several models or variants the one that is meant."""

    endpoint: str
    """The endpoint's full name."""
    model: ModelSpec
    target_model: str | None = None
    variant: str | None = None
    component: str | None = None

    def client(self, runtime: Any) -> EndpointClient:
        """A client that addresses every request so."""
        return EndpointClient(
            endpoint_name=self.endpoint,
            runtime=runtime,
            target_model=self.target_model,
            target_variant=self.variant,
            inference_component=self.component,
        )


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
        str | None, typer.Option(help="The variant that is to answer, main or challenger; else by weight.")
    ] = None,
    name: NameOption = None,
) -> None:
    """Invoke an endpoint with texts, through InvokeEndpoint, and print each output.

    Example: tritonstack invoke local minilm "A man is eating food." "Someone has a meal."
    """
    state: Context = context.obj
    workspace = state.workspace(environment, name)
    addressee = find_addressee(workspace, endpoint, model=model, variant=variant)
    _require_texts(addressee)
    values = list(texts or addressee.model.test_texts)
    client = addressee.client(state.cloud(workspace.spec).client("sagemaker-runtime"))
    outputs = _infer(client, values, max_batch=addressee.model.batching.max_batch)
    state.output.result(
        {"inputs": values, "outputs": {name: array.tolist() for name, array in outputs.items()}},
        text="\n".join(_lines(values, outputs)),
    )


def find_addressee(
    workspace: Workspace, name: str, *, model: str | None = None, variant: str | None = None
) -> Addressee:
    """Who answers what is sent to an endpoint, or UsageError where that is open or is nobody."""
    spec = workspace.spec
    _require_known(name, spec.endpoints, f"environment {spec.name!r} has no endpoint")
    endpoint, full = spec.endpoints[name], spec.endpoint_name(name)
    if endpoint.asynchronous is not None:
        raise UsageError(
            f"the endpoint {name!r} takes its requests into a queue and answers none at once",
            remedy=f"put requests below s3://{spec.data_bucket}/{naming.request_prefix(full)} and call "
            "InvokeEndpointAsync",
        )
    chosen = _variant(name, endpoint, variant)
    if isinstance(endpoint, MultiModelEndpoint):
        model = _one_of_several(name, endpoint, model)
        return Addressee(
            full, _record(workspace, model), target_model=_target(workspace, name, model), variant=variant
        )
    serves = chosen.model or endpoint.model
    if model is not None:
        _require_known(model, [serves], f"the variant {chosen.name!r} of the endpoint {name!r} has no model")
    component = naming.component_name(full) if endpoint.components else None
    return Addressee(full, _record(workspace, serves), variant=variant, component=component)


def _variant(name: str, endpoint: EndpointSpec, wanted: str | None) -> Variant:
    answering = {variant.name: variant for variant in endpoint.variants if not variant.shadow}
    if wanted is None:
        return endpoint.variants[0]
    _require_known(wanted, answering, f"the endpoint {name!r} has no answering variant")
    return answering[wanted]


def _one_of_several(name: str, endpoint: MultiModelEndpoint, wanted: str | None) -> str:
    if wanted is None:
        if len(endpoint.models) == 1:
            return endpoint.models[0]
        raise UsageError(
            f"the endpoint {name!r} serves {len(endpoint.models)} models",
            remedy=f"say which one is meant, for example --model {endpoint.models[0]}",
        )
    _require_known(wanted, endpoint.models, f"the endpoint {name!r} serves no model")
    return wanted


def _target(workspace: Workspace, name: str, model: str) -> str:
    """The TargetModel of a model, which the lock tells."""
    artifact = workspace.artifact_for(model, workspace.spec.endpoints[name].instance)
    if artifact is None:
        raise InvalidFilesError(unbuilt(workspace, name))
    return naming.target_model(model, artifact.digest)


def _record(workspace: Workspace, model: str) -> ModelSpec:
    return workspace.models[model].record


def _require_known(name: str, known: Iterable[str], complaint: str) -> None:
    known = list(known)
    if name not in known:
        suggestion = closest(name, known)
        raise UsageError(
            f"{complaint} {name!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"it has: {', '.join(known[:10])}",
        )


def _require_texts(addressee: Addressee) -> None:
    if not addressee.model.takes_texts:
        raise UsageError(
            f"the model {addressee.model.name!r} takes no texts, and this command sends texts",
            remedy="send its inputs as arrays with tritonstack.client: "
            "EndpointClient(...).infer({name: array, ...})",
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
