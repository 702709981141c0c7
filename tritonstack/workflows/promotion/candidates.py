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
from tritonstack.operations.promotion.plans import Decision
from tritonstack.operations.promotion.records import endpoints_running
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event
from tritonstack.records.lock_writing import LockChange, attested
from tritonstack.records.locks import Built, LockedImage, figures_of
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
    candidates = [_candidate(gates, item, source, target, present) for item in decision.entries]
    return tuple(
        evaluate_gates(
            gates,
            candidates,
            _proofs(source, candidates),
            datetime.now(UTC),
            served=source.workspace.spec.endpoints,
            protected=target.spec.is_protected,
        )
    )


def _proofs(source: EnvironmentAccess, candidates: Sequence[PromotionCandidate]) -> list[Event]:
    """Return the deployments, verdicts, and load tests that count for the gates."""
    deployed = read_events(source.cloud, source.bucket, kinds=DEPLOYMENTS)
    since = min(
        filter(None, (artifact_state(candidate, deployed).since for candidate in candidates)), default=None
    )
    verdicts = read_events(source.cloud, source.bucket, kinds=VERDICTS, since=since) if since else []
    required = any(candidate.performance for candidate in candidates)
    tests = read_events(source.cloud, source.bucket, kinds=LOAD_TESTS) if required else []
    return sorted([*deployed, *verdicts, *tests], key=lambda event: event.key)


def _candidate(
    gates: PromotionSpec, item: LockChange, source: EnvironmentAccess, target: Workspace, present: Built
) -> PromotionCandidate:
    entry, workspace = item.entry, source.workspace
    if isinstance(entry, LockedImage):
        endpoints = endpoints_running(workspace, item)
        return PromotionCandidate(
            item.name, item.key, entry.digest, image=True, built=entry.built, endpoints=endpoints
        )
    manifest = read_source_manifest(source.artifact(item.name, item.key, entry))
    # The manifest in the bucket may be from an earlier build of the same bytes with other test inputs.
    reasons = (entry.unverified,) if entry.unverified else ()
    built = entry.built
    if is_committed(present.commit) and entry.spec_hash == workspace.hashes.get(item.name):
        # Usually the model and the lock are committed together, after the build.
        built = attested(built, present) or built
    return PromotionCandidate(
        item.name,
        item.key,
        entry.digest,
        entry.figures or figures_of(manifest),
        compared=manifest.generation is None,
        unverified=manifest.unverified if manifest.spec_hash == entry.spec_hash else reasons,
        built=built,
        performance=tuple(performance_requirements(gates, item, workspace, target)),
        endpoints=_serving(item, workspace),
    )


def _serving(item: LockChange, source: Workspace) -> frozenset[str]:
    """Return the source's endpoints that serve an artifact."""
    return frozenset(
        name
        for name in source.spec.endpoints
        for served in source.serves(name)
        if served.model == item.name and source.target_for(served.model, served.instance) == item.key
    )
