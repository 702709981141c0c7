"""Prepare the record of a load test: the artifact and variant that it measures."""

from __future__ import annotations

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.records.events import TouchedArtifact
from tritonstack.operate.invoke.invoke import ModelRequest
from tritonstack_sizing.loads.evidence import LoadRecorder, MeasuredArtifact


def open_recorder(request: ModelRequest) -> LoadRecorder:
    """Return what records a load test of a request's target.

    Raise UsageError if several variants answer, and NotRecordedError if the endpoint serves another
    artifact than the lock names.
    """
    workspace, target = request.workspace, request.target
    endpoint = workspace.spec.endpoints[request.endpoint]
    answering = {variant.name: variant for variant in endpoint.variants if not variant.shadow}
    if target.variant is None and len(answering) > 1:
        raise CommandLineError(
            f"the endpoint {request.endpoint!r} has {len(answering)} variants, and --record measures one",
            remedy=f"select one, for example --variant {next(iter(answering))}",
        )
    variant = answering[target.variant or next(iter(answering))]
    return LoadRecorder.open(
        request.cloud,
        workspace,
        MeasuredArtifact(
            endpoint=request.endpoint,
            variant=variant.name,
            component=target.component,
            touched=TouchedArtifact(
                model=target.model.name,
                target=workspace.target_for(target.model.name, variant.instance) or "",
                digest=request.digest,
            ),
            multi_model=isinstance(endpoint, MultiModelEndpoint),
        ),
    )
