"""The promotion gates between two environments.

Pure: they use the source's events, the artifact's measurements, and `now`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from tritonstack.base.files import short_digest
from tritonstack.base.revisions import is_committed, list_files, short_commit
from tritonstack.operations.promotion.performance import PerformanceRequirement, performance_failures
from tritonstack.operations.promotion.windows import next_opening
from tritonstack.records.events import Event, EventKind
from tritonstack.records.locks import Built, Figures
from tritonstack.spec.environments.promotion import PromotionSpec
from tritonstack.spec.models.inputs import answers_remedy

Gate = Literal[
    "soaked_hours",
    "verified",
    "committed",
    "allow_unverified",
    "min_cosine",
    "max_latency_p99_ms",
    "performance",
    "windows",
]
"""Gates by their names in the environment's file. `committed` has no key: `protected` enables it."""
GATES: tuple[Gate, ...] = get_args(Gate)
DEPLOYMENTS: tuple[EventKind, ...] = ("deployed", "rolled-back")
VERDICTS: tuple[EventKind, ...] = ("verified", "refuted")
"""They apply to artifacts that are deployed at that time and still are."""
LOAD_TESTS: tuple[EventKind, ...] = ("load-tested",)


@dataclass(frozen=True)
class PromotionCandidate:
    """An artifact or custom image to promote."""

    name: str
    """The target, or the machine type of an image."""
    key: str
    """The target, or the kind of machine."""
    digest: str
    figures: Figures | None = None
    compared: bool = True
    """Whether a framework exists to compare its answers with."""
    image: bool = False
    unverified: tuple[str, ...] = ()
    """Why its answers are unverified, according to its manifest."""
    built: Built | None = None
    """None if the lock has no build information."""
    performance: tuple[PerformanceRequirement, ...] = ()
    """The objectives of the target's endpoints that will serve it."""

    @property
    def description(self) -> str:
        """Return the name and digest."""
        return f"{'image ' if self.image else ''}{self.name} for {self.key} ({short_digest(self.digest)})"

    def touched_by(self, event: Event) -> set[str]:
        """Return the digests that an event gives this entry."""
        entries: Iterable[tuple[str, str, str]]
        if self.image:
            entries = ((item.folder, item.kind, item.digest) for item in event.images)
        else:
            entries = ((item.model, item.target, item.digest) for item in event.artifacts)
        return {digest for name, key, digest in entries if (name, key) == (self.name, self.key)}


@dataclass(frozen=True)
class FailedGate:
    """A failed gate: the reason and how to pass it."""

    gate: Gate
    subject: str
    """The artifact; empty if the gate applies to all."""
    words: str
    opens: str

    def __str__(self) -> str:
        subject = f"{self.subject} " if self.subject else ""
        return f"gate {self.gate} failed: {subject}{self.words}; {self.opens}"


@dataclass(frozen=True)
class ArtifactState:
    """How long an environment has run an artifact without interruption, and the last verdict on it."""

    since: str | None = None
    """None if not deployed."""
    instead: str | None = None
    """The digest that runs instead."""
    deployed: str | None = None
    """When it was last deployed."""
    endpoints: frozenset[str] = frozenset()
    """The endpoints that it was deployed to and that may still run it."""
    passed: Event | None = None
    """The last passed verification after that."""
    refutation: Event | None = None
    refuted: frozenset[str] = frozenset()
    """Endpoints that failed verification and have not passed since."""

    @property
    def verdict(self) -> Event | None:
        """Return the current verdict: a failure counts until each endpoint that it names has passed."""
        return self.refutation if self.refuted else self.passed

    def among(self, endpoints: Collection[str]) -> ArtifactState:
        """Return the state, limited to some endpoints."""
        return replace(self, refuted=self.refuted & set(endpoints))


def evaluate_gates(
    spec: PromotionSpec,
    candidates: Sequence[PromotionCandidate],
    events: Sequence[Event],
    now: datetime,
    *,
    asked: Collection[str],
    protected: bool = False,
) -> list[FailedGate]:
    """Return all failed gates of the candidates.

    `events` are the source's DEPLOYMENTS, VERDICTS, and LOAD_TESTS, oldest first; `asked` are the endpoints
    in its file: a removed endpoint cannot be verified again. A `protected` target accepts no builds,
    verdicts, or load tests from uncommitted files.
    """
    rejected = [event for event in events if protected and _is_uncommitted_pass(event)]
    accepted = [event for event in events if event not in rejected]
    failed = [
        gate
        for candidate in candidates
        for gate in (
            *_deployed(spec, candidate, artifact_state(candidate, accepted).among(asked), rejected, now),
            *(_built(spec, candidate) if protected else ()),
            *_measured(spec, candidate),
            *_performance(candidate, events, now, protected=protected),
        )
    ]
    return [*failed, *_window(spec, now)]


def artifact_state(candidate: PromotionCandidate, events: Sequence[Event]) -> ArtifactState:
    """Return the state of an artifact according to its environment's events."""
    state = ArtifactState()
    for event in events:
        touched = candidate.touched_by(event)
        if event.kind in ("deployed", "rolled-back"):
            state = _after_deploy(state, candidate, event, touched)
        elif event.kind in ("verified", "refuted") and state.since:
            state = _after_verdict(state, event, concerned=candidate.digest in touched)
    return state


def _after_deploy(
    state: ArtifactState, candidate: PromotionCandidate, event: Event, touched: Collection[str]
) -> ArtifactState:
    if event.kind == "deployed" and set(touched) == {candidate.digest}:
        named = set(event.endpoints)
        return ArtifactState(
            since=state.since or event.at,
            deployed=event.at,
            endpoints=state.endpoints | named,
            refutation=state.refutation,
            # The deployment may cover one endpoint, so failures of others remain.
            refuted=state.refuted - named,
        )
    if others := set(touched) - {candidate.digest}:
        return ArtifactState(instead=min(others))
    if event.kind == "deployed" and not touched and state.since:
        left = state.endpoints - set(event.endpoints)
        return replace(state, endpoints=left) if left else ArtifactState()
    return state


def _after_verdict(state: ArtifactState, event: Event, *, concerned: bool) -> ArtifactState:
    """One run of `verify` may fail one endpoint and pass another with the same artifact."""
    named = set(event.endpoints)
    if event.kind == "verified":
        return replace(state, passed=event if concerned else state.passed, refuted=state.refuted - named)
    return replace(state, refutation=event, refuted=state.refuted | named) if concerned else state


def override_note(failed: Sequence[FailedGate], overrides: Mapping[Gate, str]) -> str | None:
    """Return the overridden gates and reasons for the promotion's record."""
    gates = sorted({gate.gate for gate in failed if gate.gate in overrides}, key=GATES.index)
    return "; ".join(f"gate {gate} overridden: {overrides[gate]}" for gate in gates) or None


def _is_uncommitted_pass(event: Event) -> bool:
    """Return whether a pass was recorded from uncommitted files. A failure always counts."""
    return event.kind == "verified" and not is_committed(event.commit)


def _uncommitted_note(candidate: PromotionCandidate, seen: ArtifactState, rejected: Sequence[Event]) -> str:
    """Describe the verdict that is ignored because of uncommitted files; empty if there is none."""
    found = [
        event
        for event in rejected
        if candidate.digest in candidate.touched_by(event) and event.at >= str(seen.deployed)
    ]
    if not found:
        return ""
    return (
        f"; the verdict of {_shown(_moment(found[-1].at))} is ignored: it is from {_loose_files(found[-1])}"
    )


def _loose_files(record: Event | Built) -> str:
    if record.commit is None:
        return "files outside git"
    listed = f" ({list_files(record.uncommitted)})" if record.uncommitted else ""
    return f"{short_commit(record.commit)}{listed}"


def _built(spec: PromotionSpec, candidate: PromotionCandidate) -> Iterator[FailedGate]:
    """Reject builds from uncommitted files, which cannot be reproduced."""
    built = candidate.built
    if built is not None and not is_committed(built.commit):
        yield FailedGate(
            "committed",
            candidate.description,
            f"was built from {_loose_files(built)}; a protected environment requires a commit",
            f"commit the files, run `tritonstack build {spec.source}`, then deploy and verify",
        )


def _deployed(
    spec: PromotionSpec,
    candidate: PromotionCandidate,
    seen: ArtifactState,
    rejected: Sequence[Event],
    now: datetime,
) -> Iterator[FailedGate]:
    source = spec.source
    if not spec.soaked_hours and not spec.verified:
        return
    if seen.since is None:
        runs = f"; {short_digest(seen.instead)} runs there" if seen.instead else ""
        gate: Gate = "soaked_hours" if spec.soaked_hours else "verified"
        then = [
            *([f"run `tritonstack verify {source}`"] if spec.verified else []),
            *([f"wait {spec.soaked_hours:g} hours"] if spec.soaked_hours else []),
        ]
        yield FailedGate(
            gate,
            candidate.description,
            f"is not deployed in {source}{runs}",
            f"run `tritonstack deploy {source}`, then {' and '.join(then)}",
        )
        return
    soaked = now - _moment(seen.since)
    if soaked < timedelta(hours=spec.soaked_hours):
        opens = _moment(seen.since) + timedelta(hours=spec.soaked_hours)
        yield FailedGate(
            "soaked_hours",
            candidate.description,
            f"has been deployed in {source} for {soaked / timedelta(hours=1):.1f} hours (since "
            f"{_shown(_moment(seen.since))}), required: {spec.soaked_hours:g}",
            f"passes at {_shown(opens)}",
        )
    if spec.verified and (seen.verdict is None or seen.verdict.kind == "refuted"):
        since = f"since its deployment at {_shown(_moment(str(seen.deployed)))}"
        loose = _uncommitted_note(candidate, seen, rejected)
        message = f"has not been verified in {source} {since}{loose}"
        opens_by = " from a checkout without uncommitted files" if loose else ""
        if seen.verdict is not None:
            note = f" ({seen.verdict.note})" if seen.verdict.note else ""
            message = (
                f"failed verification in {source} at {_shown(_moment(seen.verdict.at))} by "
                f"{seen.verdict.by}{note}"
            )
            opens_by = " after fixing that"
        yield FailedGate(
            "verified", candidate.description, message, f"run `tritonstack verify {source}`{opens_by}"
        )


def _measured(spec: PromotionSpec, candidate: PromotionCandidate) -> Iterator[FailedGate]:
    """Check the measurements, which only artifacts have."""
    if candidate.image:
        return
    if candidate.unverified and candidate.name not in spec.allow_unverified:
        yield FailedGate(
            "allow_unverified",
            candidate.description,
            f"is unverified: {'; '.join(candidate.unverified)}",
            f"{answers_remedy(candidate.unverified)}, and rebuild it; or add "
            f"`promotion: {{allow_unverified: {{{candidate.name}: <reason>}}}}` in the environment's file",
        )
    figures = candidate.figures or Figures()
    again = f"rebuild it and verify it in {spec.source}"
    if spec.min_cosine is not None and candidate.compared:
        found = figures.min_cosine
        if found is None or found < spec.min_cosine:
            message = (
                "has no measured cosine to its framework" if found is None else f"has cosine {found:.6f}"
            )
            yield FailedGate(
                "min_cosine",
                candidate.description,
                f"{message}, required: at least {spec.min_cosine:g}",
                again,
            )
    if spec.max_latency_p99_ms is not None:
        slow = figures.p99_ms
        if slow is None or slow > spec.max_latency_p99_ms:
            message = "has no measured latency" if slow is None else f"has a p99 latency of {slow:.1f} ms"
            yield FailedGate(
                "max_latency_p99_ms",
                candidate.description,
                f"{message}, required: at most {spec.max_latency_p99_ms:g} ms",
                again,
            )


def _performance(
    candidate: PromotionCandidate, events: Iterable[Event], now: datetime, *, protected: bool
) -> Iterator[FailedGate]:
    """Check the load tests of the source against the objectives of the target's endpoints."""
    tests = (event for event in events if event.kind in LOAD_TESTS)
    artifact = (candidate.name, candidate.digest)
    for words, opens in performance_failures(
        candidate.performance, artifact, tests, now, protected=protected
    ):
        yield FailedGate("performance", candidate.description, words, opens)


def _window(spec: PromotionSpec, now: datetime) -> Iterator[FailedGate]:
    if spec.is_open(now):
        return
    opening = next_opening(spec.windows, now)
    allowed = ", ".join(
        f"{' '.join(window.days)} {window.start}-{window.end} {window.timezone}" for window in spec.windows
    )
    yield FailedGate(
        "windows",
        "",
        f"outside the change windows at {_shown(now)} (allowed: {allowed})",
        f"the next window opens at {_shown(opening)}" if opening else "no window opens within two weeks",
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")
