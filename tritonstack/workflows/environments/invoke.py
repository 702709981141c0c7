"""Send texts or a stored example to an endpoint through InvokeEndpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritonstack.base import naming
from tritonstack.base.documents import closest
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.client import EndpointClient
from tritonstack.operations.aws import Cloud
from tritonstack.operations.smoke.examples import load_examples
from tritonstack.operations.smoke.targets import smoke_targets
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.workspace import Workspace
from tritonstack.records.example_tensors import array_of
from tritonstack.spec.endpoints.endpoint import EndpointSpec, MultiModelEndpoint, Variant
from tritonstack.spec.models.model import ModelSpec
from tritonstack.workflows.session import Session

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class InvocationTarget:
    """The receiver of a request: an endpoint, and one of its models or variants."""

    endpoint: str
    """The endpoint's full name."""
    model: ModelSpec
    target_model: str | None = None
    variant: str | None = None
    component: str | None = None

    def client(self, runtime: Any) -> EndpointClient:
        """Return a client that sends every request to this target."""
        return EndpointClient(
            endpoint_name=self.endpoint,
            runtime=runtime,
            target_model=self.target_model,
            target_variant=self.variant,
            inference_component=self.component,
        )


@dataclass(frozen=True)
class Invocation:
    """What was sent, and the outputs of the model."""

    inputs: tuple[str, ...] | Arrays
    """Texts, or the inputs of a model without text input by name."""
    outputs: Arrays
    """One row per text."""

    def to_json(self) -> dict[str, Any]:
        """Return the invocation as JSON data."""
        inputs = self.inputs
        return {
            "inputs": list(inputs) if isinstance(inputs, tuple) else _as_lists(inputs),
            "outputs": _as_lists(self.outputs),
        }


def as_text(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Decode texts, which Triton sends as bytes."""
    if array.dtype != object:
        return array
    texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in array.flat]
    return np.array(texts, dtype=object).reshape(array.shape)


def _as_lists(arrays: Arrays) -> dict[str, Any]:
    return {name: as_text(array).tolist() for name, array in arrays.items()}


def invoke(
    session: Session,
    environment: str,
    endpoint: str,
    texts: Sequence[str] = (),
    *,
    instance: str | None = None,
    model: str | None = None,
    variant: str | None = None,
) -> Invocation:
    """Send texts to an endpoint, and return the outputs.

    `texts` defaults to the model's test inputs; a model without text input gets the first example that its
    build stored. `model` selects one of several models on the endpoint, `variant` one of several variants.
    """
    workspace = session.workspace(environment, instance)
    target = find_target(workspace, endpoint, model=model, variant=variant)
    if texts:
        _require_texts(target)
    cloud = session.cloud(workspace.spec)
    client = target.client(cloud.client("sagemaker-runtime"))
    if not target.model.takes_texts:
        inputs = _example_inputs(cloud, workspace, endpoint, target)
        return Invocation(inputs, client.infer(inputs))
    values = tuple(texts or target.model.test_texts)
    return Invocation(values, infer_texts(client, values, max_batch=target.model.batching.max_batch))


def find_target(
    workspace: Workspace, name: str, *, model: str | None = None, variant: str | None = None
) -> InvocationTarget:
    """Return what answers a request to an endpoint; raise UsageError if it is ambiguous or missing."""
    spec = workspace.spec
    _require_known(name, spec.endpoints, f"environment {spec.name!r} has no endpoint")
    endpoint, full = spec.endpoints[name], spec.endpoint_name(name)
    if endpoint.asynchronous is not None:
        raise UsageError(
            f"the endpoint {name!r} is asynchronous: it queues requests and does not answer them directly",
            remedy=f"upload requests to s3://{spec.data_bucket}/{naming.request_prefix(full)} and call "
            "InvokeEndpointAsync",
            code="TS908",
        )
    chosen = _variant(name, endpoint, variant)
    if isinstance(endpoint, MultiModelEndpoint):
        model = _one_of_several(name, endpoint, model)
        return InvocationTarget(
            full, _record(workspace, model), target_model=_key(workspace, name, model), variant=variant
        )
    serves = chosen.model or endpoint.model
    if model is not None:
        _require_known(model, [serves], f"the variant {chosen.name!r} of the endpoint {name!r} has no model")
    component = naming.component_name(full) if endpoint.components else None
    return InvocationTarget(full, _record(workspace, serves), variant=variant, component=component)


def infer_texts(
    client: EndpointClient, texts: Sequence[str], *, max_batch: int
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the outputs for all texts, from as many requests as the model's largest batch requires."""
    answers = [
        client.infer({"TEXT": np.array([[text] for text in texts[begin : begin + max_batch]], dtype=object)})
        for begin in range(0, len(texts), max_batch)
    ]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


def _example_inputs(
    cloud: Cloud, workspace: Workspace, endpoint: str, target: InvocationTarget
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the inputs of the first stored example. Requests of a sequence need parameters of their own."""
    smoke = next(
        smoke
        for smoke in smoke_targets(workspace, endpoint)
        if smoke.model == target.model.name and target.variant in (None, smoke.variant)
    )
    if smoke.artifact is None:
        raise InvalidFilesError(unbuilt(workspace, endpoint))
    bucket, digest = workspace.spec.artifact_bucket, smoke.artifact.digest
    examples = load_examples(cloud, bucket=bucket, model=smoke.model, digest=digest).requests
    if not examples or examples[0].sequence:
        _require_texts(target)
    return {tensor.name: array_of(tensor) for tensor in examples[0].inputs}


def _variant(name: str, endpoint: EndpointSpec, requested: str | None) -> Variant:
    answering = {variant.name: variant for variant in endpoint.variants if not variant.shadow}
    if requested is None:
        return endpoint.variants[0]
    _require_known(requested, answering, f"the endpoint {name!r} has no answering variant")
    return answering[requested]


def _one_of_several(name: str, endpoint: MultiModelEndpoint, requested: str | None) -> str:
    if requested is None:
        if len(endpoint.models) == 1:
            return endpoint.models[0]
        raise UsageError(
            f"the endpoint {name!r} serves {len(endpoint.models)} models",
            remedy=f"select one, for example --model {endpoint.models[0]}",
            code="TS904",
        )
    _require_known(requested, endpoint.models, f"the endpoint {name!r} serves no model")
    return requested


def _key(workspace: Workspace, name: str, model: str) -> str:
    """Return the TargetModel of a model, from the lock."""
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
            remedy=f"did you mean '{suggestion}'?"
            if suggestion
            else f"it has: {', '.join(known[:10]) or 'none'}",
            code="TS903",
        )


def _require_texts(target: InvocationTarget) -> None:
    if not target.model.takes_texts:
        raise UsageError(
            f"the model {target.model.name!r} does not accept texts, and this command sends only texts",
            remedy="send its inputs as arrays with tritonstack.client: "
            "EndpointClient(...).infer({name: array, ...})",
            code="TS908",
        )
