"""Whom smoke requests go to: every model that an endpoint serves, on each variant that callers can name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import LockedArtifact
from tritonstack.spec.endpoints.endpoint import MultiModelEndpoint, SingleEndpoint
from tritonstack.spec.endpoints.variants import MAIN, Variant


@dataclass(frozen=True, kw_only=True)
class SmokeTarget:
    """One model on one variant of one endpoint."""

    endpoint: str
    """By its name in the environment's file."""
    full_name: str
    """As callers name it."""
    model: str
    artifact: LockedArtifact | None
    variant: str = MAIN
    target_model: str | None = None
    target_variant: str | None = None
    component: str | None = None
    asynchronous: bool = False
    one_machine: bool = False
    """Whether all requests reach the same copy of the model, so that a state of it can be asked about."""
    why_not: str = ""
    """Why no caller can ask it; empty where it can be asked."""


def smoke_targets(workspace: Workspace, name: str) -> list[SmokeTarget]:
    """All of an endpoint."""
    endpoint = workspace.spec.endpoints[name]
    if isinstance(endpoint, MultiModelEndpoint):
        return list(_models(workspace, name, endpoint))
    return [_variant(workspace, name, endpoint, variant) for variant in endpoint.variants]


def may_sleep(workspace: Workspace, name: str) -> bool:
    """Whether no machine, or no copy of the model, may run of an endpoint until somebody asks."""
    endpoint = workspace.spec.endpoints[name]
    if endpoint.components is not None and endpoint.components.min_copies == 0:
        return True
    return any(variant.scaling.lowest == 0 for variant in endpoint.variants)


def _models(workspace: Workspace, name: str, endpoint: MultiModelEndpoint) -> Iterator[SmokeTarget]:
    (variant,) = endpoint.variants
    for model in endpoint.models:
        artifact = workspace.artifact_for(model, endpoint.instance)
        yield SmokeTarget(
            endpoint=name,
            full_name=workspace.spec.endpoint_name(name),
            model=model,
            artifact=artifact,
            target_model=naming.target_model(model, artifact.digest) if artifact else None,
            one_machine=_is_one(endpoint, variant),
        )


def _variant(workspace: Workspace, name: str, endpoint: SingleEndpoint, variant: Variant) -> SmokeTarget:
    full_name, model = workspace.spec.endpoint_name(name), variant.model or endpoint.model
    why_not = ""
    if variant.shadow:
        why_not = "a shadow variant gets copies of requests, and its answers are dropped: nobody can ask it"
    return SmokeTarget(
        endpoint=name,
        full_name=full_name,
        model=model,
        artifact=workspace.artifact_for(model, variant.instance),
        variant=variant.name,
        target_variant=variant.name if endpoint.challenger and not variant.shadow else None,
        component=naming.component_name(full_name) if endpoint.components else None,
        asynchronous=endpoint.asynchronous is not None,
        one_machine=_is_one(endpoint, variant),
        why_not=why_not,
    )


def _is_one(endpoint: SingleEndpoint | MultiModelEndpoint, variant: Variant) -> bool:
    if endpoint.components is not None:
        return endpoint.components.max_copies == 1
    return variant.scaling.highest == 1
