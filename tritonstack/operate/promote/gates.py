"""The promotion gates between two environments.

Pure: they use the source's events, the artifact's measurements, and `now`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from tritonstack.base.files import short_digest
from tritonstack.base.results import public
from tritonstack.base.revisions import is_committed, list_files, short_commit
from tritonstack.files.environment.promotion import PromotionSpec
from tritonstack.files.model.inputs import answers_remedy
from tritonstack.files.records.events import Event, EventKind
from tritonstack.files.records.locks import Built, Figures
from tritonstack.operate.promote.performance import PerformanceRequirement, judge_performance, next_opening

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
    endpoints: frozenset[str] = frozenset()
    """The source's endpoints that serve or run it, according to the source's file."""

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
class GateResult:
    """A gate, what it requires, and what was measured; if it failed, the reason and how to pass it."""

    gate: Gate
    subject: str
    """The artifact; empty if the gate applies to all."""
    required: str
    measured: str
    reason: str = ""
    """Empty if the gate passed."""
    remedy: str = ""
    overridden: str | None = None
    """The reason if it failed and is overridden."""

    @public
    def passed(self) -> bool:
        """Whether the artifact may pass."""
        return not self.reason

    def __str__(self) -> str:
        subject = f"{self.subject} " if self.subject else ""
        return f"gate {self.gate} failed: {subject}{self.reason}; {self.remedy}"


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
    verified: frozenset[str] = frozenset()
    """Endpoints that passed verification since they were last deployed."""
    refutation: Event | None = None
    refuted: frozenset[str] = frozenset()
    """Endpoints that failed verification and have not passed since."""

    def unverified(self, serving: frozenset[str]) -> frozenset[str]:
        """Return the endpoints that run the artifact and have not passed, of those that should serve it.

        If none of those runs it, because the file has changed since, all that were deployed count.
        """
        return ((self.endpoints & serving) or self.endpoints) - self.verified

    def among(self, endpoints: Collection[str]) -> ArtifactState:
        """Return the state, limited to some endpoints."""
        return replace(self, refuted=self.refuted & set(endpoints))


def evaluate_gates(
    spec: PromotionSpec,
    candidates: Sequence[PromotionCandidate],
    events: Sequence[Event],
    now: datetime,
    *,
    served: Collection[str],
    protected: bool = False,
) -> list[GateResult]:
    """Return each gate of each candidate, passed or failed.

    `events` are the source's DEPLOYMENTS, VERDICTS, and LOAD_TESTS, oldest first; `served` are the endpoints
    in its file: a removed endpoint cannot be verified again. A `protected` target accepts no builds,
    verdicts, or load tests from uncommitted files.
    """
    rejected = [
        event for event in events if protected and event.kind == "verified" and not is_committed(event.commit)
    ]
    accepted = [event for event in events if event not in rejected]
    results: list[GateResult] = []
    for candidate in candidates:
        state = artifact_state(candidate, accepted).among(served)
        gates = _CandidateGates(spec, candidate, state, rejected, now)
        results += gates.deployed()
        results += gates.built() if protected else ()
        results += gates.measured()
        results += gates.performance(events, protected=protected)
    return [*results, *_window(spec, now)]


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
            verified=state.verified - named,
            refutation=state.refutation,
            # The deployment may cover one endpoint, so failures of others remain.
            refuted=state.refuted - named,
        )
    if others := set(touched) - {candidate.digest}:
        return ArtifactState(instead=min(others))
    if event.kind == "deployed" and not touched and state.since:
        remaining = state.endpoints - set(event.endpoints)
        return replace(state, endpoints=remaining) if remaining else ArtifactState()
    return state


def _after_verdict(state: ArtifactState, event: Event, *, concerned: bool) -> ArtifactState:
    """One run of `verify` may fail one endpoint and pass another with the same artifact."""
    named = set(event.endpoints)
    if event.kind == "verified":
        state = replace(state, refuted=state.refuted - named)
        return replace(state, passed=event, verified=state.verified | named) if concerned else state
    if not concerned:
        return state
    return replace(state, refutation=event, refuted=state.refuted | named, verified=state.verified - named)


def override(results: Iterable[GateResult], overrides: Mapping[Gate, str]) -> tuple[GateResult, ...]:
    """Return the results with the reasons for which failed gates are overridden."""
    return tuple(
        result if result.passed else replace(result, overridden=overrides.get(result.gate))
        for result in results
    )


def override_note(results: Sequence[GateResult]) -> str | None:
    """Return the overridden gates and reasons for the promotion's record."""
    reasons = {result.gate: result.overridden for result in results if result.overridden is not None}
    gates = sorted(reasons, key=GATES.index)
    return "; ".join(f"gate {gate} overridden: {reasons[gate]}" for gate in gates) or None


@dataclass(frozen=True)
class _CandidateGates:
    spec: PromotionSpec
    candidate: PromotionCandidate
    state: ArtifactState
    rejected: Sequence[Event]
    """Passes that do not count, because they are from uncommitted files."""
    now: datetime

    def _result(
        self, gate: Gate, required: str, measured: str, reason: str = "", remedy: str = ""
    ) -> GateResult:
        """Return a gate's result; without a reason, it has passed."""
        subject = self.candidate.description
        return GateResult(gate, subject, required, measured, reason, remedy if reason else "")

    def built(self) -> Iterator[GateResult]:
        """Reject builds from uncommitted files, which cannot be reproduced."""
        built, required = self.candidate.built, "built from a commit"
        if built is None:
            return
        if is_committed(built.commit):
            yield self._result("committed", required, f"commit {short_commit(str(built.commit))}")
            return
        files = _loose_files(built)
        reason = f"was built from {files}; a protected environment requires a commit"
        remedy = f"commit the files, run `tritonstack build {self.spec.source}`, then deploy and verify"
        yield self._result("committed", required, files, reason, remedy)

    def deployed(self) -> Iterator[GateResult]:
        """Require that the source runs it, for long enough and verified."""
        if self.state.since is None:
            yield from self._undeployed()
            return
        if self.spec.soaked_hours:
            yield self._soaked(_moment(self.state.since))
        if self.spec.verified:
            yield self._verified()

    def _undeployed(self) -> Iterator[GateResult]:
        spec, source, instead = self.spec, self.spec.source, self.state.instead
        runs = f"; {short_digest(instead)} runs there" if instead else ""
        reason, deploy = f"is not deployed in {source}{runs}", f"run `tritonstack deploy {source}`, then"
        measured = f"not deployed{runs}"
        if spec.soaked_hours:
            remedy = f"{deploy} wait {spec.soaked_hours:g} hours"
            yield self._result("soaked_hours", _hours(spec), measured, reason, remedy)
        if spec.verified:
            yield self._result(
                "verified", _PASS, measured, reason, f"{deploy} run `tritonstack verify {source}`"
            )

    def _soaked(self, since: datetime) -> GateResult:
        required, soaked = timedelta(hours=self.spec.soaked_hours), self.now - since
        hours = f"{soaked / timedelta(hours=1):.1f}"
        reason = (
            f"has been deployed in {self.spec.source} for {hours} hours (since {_shown(since)}), required: "
            f"{self.spec.soaked_hours:g}"
            if soaked < required
            else ""
        )
        remedy = f"passes at {_shown(since + required)}"
        return self._result("soaked_hours", _hours(self.spec), f"{hours} h", reason, remedy)

    def _verified(self) -> GateResult:
        """Require a pass of each endpoint that runs the artifact: another one may answer differently."""
        state, source = self.state, self.spec.source
        verify = f"run `tritonstack verify {source}`"
        if state.refuted and (refutation := state.refutation) is not None:
            note, at = f" ({refutation.note})" if refutation.note else "", _shown(_moment(refutation.at))
            measured = f"failed on {', '.join(sorted(state.refuted))}"
            reason = f"failed verification in {source} at {at} by {refutation.by}{note}"
            return self._result("verified", _PASS, measured, reason, f"{verify} after fixing that")
        unverified = sorted(state.unverified(self.candidate.endpoints))
        if state.passed is not None and not unverified:
            endpoints = ", ".join(sorted(state.verified & self.candidate.endpoints))
            return self._result("verified", _PASS, f"passed on {endpoints}" if endpoints else "passed")
        where = f" on {', '.join(unverified)}" if state.verified and unverified else ""
        loose = self._uncommitted_note()
        deployed_at = _shown(_moment(str(state.deployed)))
        return self._result(
            "verified",
            _PASS,
            f"not verified{where}",
            f"has not been verified in {source}{where} since its deployment at {deployed_at}{loose}",
            f"{verify}{' from a checkout without uncommitted files' if loose else ''}",
        )

    def _uncommitted_note(self) -> str:
        """Describe the verdict that is ignored because of uncommitted files; empty if there is none."""
        verdicts = [
            event
            for event in self.rejected
            if self.candidate.digest in self.candidate.touched_by(event)
            and event.at >= str(self.state.deployed)
        ]
        if not verdicts:
            return ""
        last = verdicts[-1]
        return f"; the verdict of {_shown(_moment(last.at))} is ignored: it is from {_loose_files(last)}"

    def measured(self) -> Iterator[GateResult]:
        """Check the measurements, which only artifacts have."""
        spec, figures = self.spec, self.candidate.figures or Figures()
        if self.candidate.image:
            return
        yield self._answers()
        if spec.min_cosine is not None and self.candidate.compared:
            cosine, required = figures.min_cosine, f"at least {spec.min_cosine:g}"
            if cosine is None:
                yield self._unmeasured("min_cosine", required, "has no measured cosine to its framework")
            else:
                reason = f"has cosine {cosine:.6f}" if cosine < spec.min_cosine else ""
                yield self._figure("min_cosine", required, f"{cosine:.6f}", reason)
        if spec.max_latency_p99_ms is not None:
            p99, required = figures.p99_ms, f"at most {spec.max_latency_p99_ms:g} ms"
            if p99 is None:
                yield self._unmeasured("max_latency_p99_ms", required, "has no measured latency")
            else:
                reason = f"has a p99 latency of {p99:.1f} ms" if p99 > spec.max_latency_p99_ms else ""
                yield self._figure("max_latency_p99_ms", required, f"{p99:.1f} ms", reason)

    def _unmeasured(self, gate: Gate, required: str, reason: str) -> GateResult:
        return self._figure(gate, required, "not measured", reason)

    def _figure(self, gate: Gate, required: str, measured: str, reason: str) -> GateResult:
        reason = reason and f"{reason}, required: {required}"
        return self._result(
            gate, required, measured, reason, f"rebuild it and verify it in {self.spec.source}"
        )

    def _answers(self) -> GateResult:
        """Require that the build compared the answers with others, or a reason why not."""
        required, unverified = "answers compared", self.candidate.unverified
        if not unverified:
            return self._result("allow_unverified", required, "compared")
        if allowed := self.spec.allow_unverified.get(self.candidate.name):
            return self._result("allow_unverified", required, f"unverified, allowed: {allowed}")
        measured = f"unverified: {'; '.join(unverified)}"
        remedy = (
            f"{answers_remedy(unverified)}, and rebuild it; or add `promotion: {{allow_unverified: "
            f"{{{self.candidate.name}: <reason>}}}}` in the environment's file"
        )
        return self._result("allow_unverified", required, measured, f"is {measured}", remedy)

    def performance(self, events: Iterable[Event], *, protected: bool) -> Iterator[GateResult]:
        """Check the load tests of the source against the objectives of the target's endpoints."""
        tests = (event for event in events if event.kind in LOAD_TESTS)
        artifact = (self.candidate.name, self.candidate.digest)
        for requirement, failure in judge_performance(
            self.candidate.performance, artifact, tests, self.now, protected=protected
        ):
            objective, endpoint = requirement.objective.description, requirement.endpoint
            required = f"{endpoint}: {objective}"
            if failure is None:
                yield self._result("performance", required, "shown by a recorded load test")
            else:
                reason = f"has not shown {objective}, which {endpoint} requires: {failure}"
                yield self._result("performance", required, failure, reason, requirement.measure)


def _loose_files(record: Event | Built) -> str:
    if record.commit is None:
        return "files outside git"
    listed = f" ({list_files(record.uncommitted)})" if record.uncommitted else ""
    return f"{short_commit(record.commit)}{listed}"


def _hours(spec: PromotionSpec) -> str:
    return f"deployed for {spec.soaked_hours:g} h"


_PASS = "passed on each endpoint since its deployment"  # noqa: S105 - not a password


def _window(spec: PromotionSpec, now: datetime) -> Iterator[GateResult]:
    if not spec.windows:
        return
    allowed = ", ".join(
        f"{' '.join(window.days)} {window.start}-{window.end} {window.timezone}" for window in spec.windows
    )
    reason = remedy = ""
    if not spec.is_open(now):
        opening = next_opening(spec.windows, now)
        reason = f"outside the change windows at {_shown(now)} (allowed: {allowed})"
        remedy = "no window opens within two weeks"
        if opening:
            remedy = f"the next window opens at {_shown(opening)}"
    yield GateResult("windows", "", allowed, _shown(now), reason, remedy)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")
