"""Collect what the promotion gates check: candidates, and the events that prove them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tritonstack.base.revisions import is_committed
from tritonstack.files.endpoint.endpoint import EndpointSpec, MultiModelEndpoint, Variant
from tritonstack.files.endpoint.scaling import Scaling
from tritonstack.files.environment.promotion import PerformanceObjective, PromotionSpec
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.files.records.lock_writing import LockChange, attested
from tritonstack.files.records.locks import Built, LockedImage, figures_of
from tritonstack.operate.artifacts.copying import EnvironmentAccess
from tritonstack.operate.artifacts.transfers import read_source_manifest
from tritonstack.operate.promote.gates import (
    DEPLOYMENTS,
    LOAD_TESTS,
    VERDICTS,
    GateResult,
    PromotionCandidate,
    artifact_state,
    evaluate_gates,
)
from tritonstack.operate.promote.performance import PerformanceRequirement
from tritonstack.operate.promote.plans import Decision, endpoints_running
from tritonstack.operate.shared.events import built_now, read_events

_LEAST_S = 60
_ANSWERS = 2_200
"""So many that at least 1,000 remain after the warm-up: a 99th percentile requires them."""


def performance_requirements(
    gates: PromotionSpec, item: LockChange, source: Workspace, target: Workspace
) -> Iterator[PerformanceRequirement]:
    """Yield the objectives of the target's endpoints that will serve an artifact."""
    for name, objective in gates.performance.items():
        endpoint = target.spec.endpoints[name]
        kinds = {variant.instance.name: variant.instance for variant in _answering(endpoint, item.name)}
        for kind, instance in kinds.items():
            if item.key in target.spec.acceptable_targets(instance):
                yield PerformanceRequirement(
                    name,
                    kind,
                    target.spec.real_instances,
                    objective,
                    _measure(source, item.name, kind, objective, real=target.spec.real_instances),
                )


def _measure(source: Workspace, model: str, kind: str, objective: PerformanceObjective, *, real: bool) -> str:
    environment = source.spec.name
    if real and not source.spec.real_instances:
        return (
            f"{environment} is on the local cloud: promote from an environment on AWS, and run `tritonstack "
            "bench ... --record` there"
        )
    for name, endpoint in source.spec.endpoints.items():
        if endpoint.asynchronous is not None:
            continue
        for variant in _answering(endpoint, model):
            if variant.instance.name == kind:
                selected = [
                    *([f"--model {model}"] if isinstance(endpoint, MultiModelEndpoint) else []),
                    *([f"--variant {variant.name}"] if len(_answering(endpoint)) > 1 else []),
                ]
                return _bench(f"{environment} {name}", selected, objective.rate_per_instance, variant.scaling)
    return (
        f"deploy {model} in {environment} on {kind}, then run `tritonstack bench {environment} ... --record`"
    )


def _bench(endpoint: str, selected: Sequence[str], each: float, scaling: Scaling) -> str:
    """Return the command for the lowest number of instances, and what further ones need."""
    lowest = max(1, scaling.lowest)
    rate = each * lowest
    options = [f"--rate {_digits(rate)}", f"--duration {max(_LEAST_S, math.ceil(_ANSWERS / rate))}"]
    command = f"run `tritonstack bench {endpoint} {' '.join([*options, *selected, '--record'])}`"
    if scaling.highest <= lowest:
        return command
    running = "1 instance runs" if lowest == 1 else f"{lowest} instances run"
    more = f"with more of them, up to {scaling.highest}, add {_digits(each)} to the rate for each"
    return f"{command} while {running}; {more}"


def _digits(rate: float) -> str:
    """Return a rate that is not rounded; `g` alone keeps six digits."""
    return f"{rate:.15g}"


def _answering(endpoint: EndpointSpec, model: str | None = None) -> list[Variant]:
    """Return the variants that answer callers, all or those that serve a model."""
    return [
        variant
        for variant in endpoint.variants
        if not variant.shadow
        and (model is None or model in ((variant.model,) if variant.model else endpoint.models))
    ]


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
    return frozenset(
        name
        for name in source.spec.endpoints
        for served in source.serves(name)
        if served.model == item.name and source.target_for(served.model, served.instance) == item.key
    )
