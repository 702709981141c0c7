"""Determine which models and variants smoke requests can address."""

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
    """The endpoint's name in the environment's file."""
    full_name: str
    """The endpoint name for callers."""
    model: str
    artifact: LockedArtifact | None
    variant: str = MAIN
    target_model: str | None = None
    target_variant: str | None = None
    component: str | None = None
    asynchronous: bool = False
    one_machine: bool = False
    """Whether all requests reach the same copy, as stateful models require."""
    why_not: str = ""
    """Why it cannot be called; empty if it can."""


def smoke_targets(workspace: Workspace, name: str) -> list[SmokeTarget]:
    """Return all targets of an endpoint."""
    endpoint = workspace.spec.endpoints[name]
    if isinstance(endpoint, MultiModelEndpoint):
        return list(_models(workspace, name, endpoint))
    return [_variant(workspace, name, endpoint, variant) for variant in endpoint.variants]


def may_sleep(workspace: Workspace, name: str) -> bool:
    """Return whether the endpoint may be scaled to zero."""
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
        why_not = "shadow variants receive copies of requests and their answers are dropped"
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
