"""Find what answers a request to an endpoint: its full name, and a model, variant, or component."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import InvalidFilesError
from tritonstack.client import EndpointClient, QueuedEndpointClient
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint, Variant
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.project.names import require_known
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.operate.shared.aws import Cloud


@dataclass(frozen=True, kw_only=True)
class InvocationTarget:
    """The receiver of a request: one model on one variant of an endpoint."""

    endpoint: str
    """The endpoint's full name."""
    model: ModelSpec
    artifact: LockedArtifact | None
    served_by: str
    """The variant that serves the model."""
    target_model: str | None = None
    variant: str | None = None
    """The variant that requests name; None if the endpoint chooses."""
    component: str | None = None
    asynchronous: bool = False
    """Whether requests are queued in S3."""
    one_machine: bool = False
    """Whether all requests reach the same copy, as stateful models require."""
    why_not: str = ""
    """Why it cannot be called; empty if it can."""

    def client(self, runtime: Any) -> EndpointClient:
        """Return a client that sends every request to this target."""
        return EndpointClient(
            endpoint_name=self.endpoint,
            runtime=runtime,
            target_model=self.target_model,
            target_variant=self.variant,
            inference_component=self.component,
        )

    def queue(
        self, cloud: Cloud, bucket: str, *, folder: str = "invoke", **waiting: Any
    ) -> QueuedEndpointClient:
        """Return a client that queues every request; `bucket` is the environment's data bucket."""
        return QueuedEndpointClient(
            endpoint_name=self.endpoint,
            input_prefix=f"s3://{bucket}/{naming.request_prefix(self.endpoint)}{folder}/",
            runtime=cloud.client("sagemaker-runtime"),
            s3=cloud.client("s3"),
            **waiting,
        )


def endpoint_targets(workspace: Workspace, name: str) -> list[InvocationTarget]:
    """Return all targets of an endpoint; requests to each name its variant if several answer."""
    endpoint = workspace.spec.endpoints[name]
    if isinstance(endpoint, MultiModelEndpoint):
        (variant,) = endpoint.variants
        return [_target(workspace, name, variant, model) for model in endpoint.models]
    return [
        _target(workspace, name, variant, variant.model or endpoint.model) for variant in endpoint.variants
    ]


def _target(workspace: Workspace, name: str, variant: Variant, model: str) -> InvocationTarget:
    endpoint, full_name = workspace.spec.endpoints[name], workspace.spec.endpoint_name(name)
    artifact = workspace.artifact_for(model, variant.instance)
    is_one_of_several = isinstance(endpoint, MultiModelEndpoint)
    answering = [other for other in endpoint.variants if not other.shadow]
    copies = endpoint.components.max_copies if endpoint.components else variant.scaling.highest
    return InvocationTarget(
        endpoint=full_name,
        model=workspace.models[model].record,
        artifact=artifact,
        served_by=variant.name,
        target_model=naming.target_model(model, artifact.digest) if is_one_of_several and artifact else None,
        variant=variant.name if len(answering) > 1 and not variant.shadow else None,
        component=naming.component_name(full_name) if endpoint.components else None,
        asynchronous=endpoint.asynchronous is not None,
        one_machine=copies == 1,
        why_not="shadow variants receive copies of requests and their answers are dropped"
        if variant.shadow
        else "",
    )


def find_target(
    workspace: Workspace, name: str, *, model: str | None = None, variant: str | None = None
) -> InvocationTarget:
    """Return what answers a request to an endpoint; raise UsageError if it is ambiguous or missing."""
    spec = workspace.spec
    require_known(name, spec.endpoints, f"environment {spec.name!r} has no endpoint")
    targets = [target for target in endpoint_targets(workspace, name) if not target.why_not]
    if variant is not None:
        answering = dict.fromkeys(target.served_by for target in targets)
        require_known(variant, answering, f"the endpoint {name!r} has no answering variant")
    several = isinstance(spec.endpoints[name], MultiModelEndpoint)
    if several and model is None and len(targets) > 1:
        raise CommandLineError(
            f"the endpoint {name!r} serves {len(targets)} models",
            remedy=f"select one, for example --model {targets[0].model.name}",
        )
    if not several:
        targets = [target for target in targets if variant in (None, target.served_by)][:1]
    if model is not None:
        owner = (
            f"endpoint {name!r} serves"
            if several
            else f"variant {targets[0].served_by!r} of the endpoint {name!r} has"
        )
        require_known(model, [target.model.name for target in targets], f"the {owner} no model")
    target = next(target for target in targets if model in (None, target.model.name))
    if several and target.artifact is None:
        raise InvalidFilesError(unbuilt(workspace, name))
    return replace(target, variant=variant)
