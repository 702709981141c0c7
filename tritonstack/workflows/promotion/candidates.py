"""Collect what the promotion gates check: candidates, and the events that prove them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tritonstack.base.revisions import is_committed
from tritonstack.operations.events import built_now, read_events
from tritonstack.operations.promotion.fetching import read_source_manifest
from tritonstack.operations.promotion.gates import (
    DEPLOYMENTS,
    LOAD_TESTS,
    VERDICTS,
    GateResult,
    PromotionCandidate,
    artifact_state,
    evaluate_gates,
)
from tritonstack.operations.promotion.performance import PerformanceRequirement
from tritonstack.operations.promotion.plans import Artifact, Decision, Image
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event
from tritonstack.records.lock_writing import attested
from tritonstack.records.locks import Built, figures_of
from tritonstack.records.manifests import Manifest
from tritonstack.spec.environments.promotion import PromotionSpec
from tritonstack.workflows.artifacts.copying import EnvironmentAccess
from tritonstack.workflows.promotion.requirements import performance_requirements


def gate_results(
    gates: PromotionSpec, decision: Decision, source: EnvironmentAccess | None, target: Workspace
) -> tuple[GateResult, ...]:
    """Evaluate the gates; entries that the lock names already have passed them."""
    if not decision.entries or source is None:
        return ()
    present = built_now(source.workspace)  # reads the files of all models
    candidates = [
        *(
            _candidate(
                item,
                read_source_manifest(source.artifact(item)),
                _built(item, source.workspace, present),
                tuple(performance_requirements(gates, item, source.workspace, target)),
                _serving(item, source.workspace),
            )
            for item in decision.artifacts
        ),
        *(
            PromotionCandidate(
                item.name,
                item.key,
                item.entry.digest,
                image=True,
                built=item.entry.built,
                endpoints=_running(item, source.workspace),
            )
            for item in decision.images
        ),
    ]
    return tuple(
        evaluate_gates(
            gates,
            candidates,
            _proofs(source, candidates),
            datetime.now(UTC),
            asked=source.workspace.spec.endpoints,
            protected=target.spec.is_protected,
        )
    )


def _proofs(source: EnvironmentAccess, candidates: Sequence[PromotionCandidate]) -> list[Event]:
    """Return the deployments, verdicts, and load tests that count for the gates."""
    deployed = read_events(source.cloud, source.bucket, kinds=DEPLOYMENTS)
    since = min(filter(None, (artifact_state(one, deployed).since for one in candidates)), default=None)
    verdicts = read_events(source.cloud, source.bucket, kinds=VERDICTS, since=since) if since else []
    required = any(one.performance for one in candidates)
    tests = read_events(source.cloud, source.bucket, kinds=LOAD_TESTS) if required else []
    return sorted([*deployed, *verdicts, *tests], key=lambda event: event.key)


def _candidate(
    item: Artifact,
    manifest: Manifest,
    built: Built | None,
    performance: tuple[PerformanceRequirement, ...],
    endpoints: frozenset[str],
) -> PromotionCandidate:
    entry = item.entry
    # The manifest in the bucket may be from an earlier build of the same bytes with other test inputs.
    reasons = (entry.unverified,) if entry.unverified else ()
    unverified = manifest.unverified if manifest.spec_hash == entry.spec_hash else reasons
    return PromotionCandidate(
        item.name,
        item.key,
        entry.digest,
        entry.figures or figures_of(manifest),
        compared=manifest.generation is None,
        unverified=unverified,
        built=built,
        performance=performance,
        endpoints=endpoints,
    )


def _serving(item: Artifact, source: Workspace) -> frozenset[str]:
    """Return the source's endpoints that serve an artifact."""
    return frozenset(
        name
        for name in source.spec.endpoints
        for served in source.serves(name)
        if served.model == item.name and source.target_for(served.model, served.instance) == item.key
    )


def _running(item: Image, source: Workspace) -> frozenset[str]:
    """Return the source's endpoints that run a custom image."""
    return frozenset(
        name
        for name, endpoint in source.spec.endpoints.items()
        for variant in endpoint.variants
        if endpoint.image == item.name and ("gpu" if variant.instance.gpus else "cpu") == item.key
    )


def _built(item: Artifact, source: Workspace, present: Built) -> Built | None:
    """Return who built an artifact; with the current commit if it has the files that were built.

    Usually the model and the lock are committed together, after the build.
    """
    built = item.entry.built
    if is_committed(present.commit) and item.entry.spec_hash == source.hashes.get(item.name):
        return attested(built, present) or built
    return built
