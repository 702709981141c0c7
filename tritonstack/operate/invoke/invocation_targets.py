"""Find what answers a request to an endpoint: its full name, and a model, variant, or component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import InvalidFilesError
from tritonstack.client import EndpointClient, QueuedEndpointClient
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.endpoint.endpoint import EndpointSpec, MultiModelEndpoint, Variant
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.project.names import require_known
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.shared.aws import Cloud


@dataclass(frozen=True)
class InvocationTarget:
    """The receiver of a request: an endpoint, and one of its models or variants."""

    endpoint: str
    """The endpoint's full name."""
    model: ModelSpec
    target_model: str | None = None
    variant: str | None = None
    component: str | None = None
    asynchronous: bool = False
    """Whether requests are queued in S3."""

    def client(self, runtime: Any) -> EndpointClient:
        """Return a client that sends every request to this target."""
        return EndpointClient(
            endpoint_name=self.endpoint,
            runtime=runtime,
            target_model=self.target_model,
            target_variant=self.variant,
            inference_component=self.component,
        )

    def queue(self, cloud: Cloud, bucket: str) -> QueuedEndpointClient:
        """Return a client that queues every request; `bucket` is the environment's data bucket."""
        return QueuedEndpointClient(
            endpoint_name=self.endpoint,
            input_prefix=f"s3://{bucket}/{naming.request_prefix(self.endpoint)}invoke/",
            runtime=cloud.client("sagemaker-runtime"),
            s3=cloud.client("s3"),
        )


def find_target(
    workspace: Workspace, name: str, *, model: str | None = None, variant: str | None = None
) -> InvocationTarget:
    """Return what answers a request to an endpoint; raise UsageError if it is ambiguous or missing."""
    spec = workspace.spec
    require_known(name, spec.endpoints, f"environment {spec.name!r} has no endpoint")
    endpoint, full = spec.endpoints[name], spec.endpoint_name(name)
    chosen = _variant(name, endpoint, variant)
    if isinstance(endpoint, MultiModelEndpoint):
        model = _one_of_several(name, endpoint, model)
        return InvocationTarget(
            full, _record(workspace, model), target_model=_key(workspace, name, model), variant=variant
        )
    serves = chosen.model or endpoint.model
    if model is not None:
        require_known(model, [serves], f"the variant {chosen.name!r} of the endpoint {name!r} has no model")
    component = naming.component_name(full) if endpoint.components else None
    return InvocationTarget(
        full,
        _record(workspace, serves),
        variant=variant,
        component=component,
        asynchronous=endpoint.asynchronous is not None,
    )


def _variant(name: str, endpoint: EndpointSpec, requested: str | None) -> Variant:
    answering = {variant.name: variant for variant in endpoint.variants if not variant.shadow}
    if requested is None:
        return endpoint.variants[0]
    require_known(requested, answering, f"the endpoint {name!r} has no answering variant")
    return answering[requested]


def _one_of_several(name: str, endpoint: MultiModelEndpoint, requested: str | None) -> str:
    if requested is None:
        if len(endpoint.models) == 1:
            return endpoint.models[0]
        raise CommandLineError(
            f"the endpoint {name!r} serves {len(endpoint.models)} models",
            remedy=f"select one, for example --model {endpoint.models[0]}",
        )
    require_known(requested, endpoint.models, f"the endpoint {name!r} serves no model")
    return requested


def _key(workspace: Workspace, name: str, model: str) -> str:
    """Return the TargetModel of a model, from the lock."""
    artifact = workspace.artifact_for(model, workspace.spec.endpoints[name].instance)
    if artifact is None:
        raise InvalidFilesError(unbuilt(workspace, name))
    return naming.target_model(model, artifact.digest)


def _record(workspace: Workspace, model: str) -> ModelSpec:
    return workspace.models[model].record
