"""The promotion gates between two environments.

Pure: they use the source's events, the artifact's measurements, and `now`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from tritonstack.base.errors import UsageError
from tritonstack.base.revisions import is_committed, list_files, short_commit
from tritonstack.operations.promotion.windows import next_opening
from tritonstack.records.events import Event, EventKind
from tritonstack.records.locks import Built, Figures
from tritonstack.spec.environments.promotion import PromotionSpec
from tritonstack.spec.models.inputs import WRITE_ANSWERS

Gate = Literal[
    "soaked_hours",
    "verified",
    "committed",
    "allow_unverified",
    "min_cosine",
    "max_latency_p99_ms",
    "windows",
]
"""Gates by their names in the environment's file. `committed` has no key: protection brings it."""
GATES: tuple[Gate, ...] = get_args(Gate)
DEPLOYMENTS: tuple[EventKind, ...] = ("deployed", "rolled-back")
VERDICTS: tuple[EventKind, ...] = ("verified", "refuted")
"""They count for what has been deployed by then and has not gone since."""


@dataclass(frozen=True)
class Candidate:
    """An artifact or custom image to promote."""

    name: str
    """The model, or the folder of containers/."""
    key: str
    """The target, or the kind of machine."""
    digest: str
    figures: Figures | None = None
    compared: bool = True
    """Whether there is a framework that its answers can be compared with at all."""
    image: bool = False
    unverified: tuple[str, ...] = ()
    """Why nothing proves its answers right, as its manifest says."""
    built: Built | None = None
    """None if its lock does not say who built it."""

    @property
    def words(self) -> str:
        """It by its name and digest."""
        return f"{'image ' if self.image else ''}{self.name} for {self.key} ({_short(self.digest)})"

    def touched_by(self, event: Event) -> set[str]:
        """The digests that an event tells of in its place."""
        held: Iterable[tuple[str, str, str]]
        if self.image:
            held = ((item.folder, item.kind, item.digest) for item in event.images)
        else:
            held = ((item.model, item.target, item.digest) for item in event.artifacts)
        return {digest for name, key, digest in held if (name, key) == (self.name, self.key)}


@dataclass(frozen=True)
class Shut:
    """A failed gate: the reason and how to pass it."""

    gate: Gate
    subject: str
    """Which artifact; empty where it holds for all."""
    words: str
    opens: str

    def __str__(self) -> str:
        subject = f"{self.subject} " if self.subject else ""
        return f"gate {self.gate} is shut: {subject}{self.words}; {self.opens}"


@dataclass(frozen=True)
class Standing:
    """How long an environment has run an artifact without interruption, and the last verdict on it."""

    since: str | None = None
    """None where it does not run it."""
    instead: str | None = None
    """The digest that it runs now."""
    deployed: str | None = None
    """When it was deployed last."""
    endpoints: frozenset[str] = frozenset()
    """Where it was deployed to, so far as they may run it still."""
    passed: Event | None = None
    """The last verification after that."""
    refutation: Event | None = None
    refuted: frozenset[str] = frozenset()
    """Endpoints that have not passed since they were refuted."""

    @property
    def verdict(self) -> Event | None:
        """The one that counts: a refutation does until each endpoint that it names has passed."""
        return self.refutation if self.refuted else self.passed

    def among(self, endpoints: Collection[str]) -> Standing:
        """The same, of these endpoints alone."""
        return replace(self, refuted=self.refuted & set(endpoints))


def shut_gates(
    spec: PromotionSpec,
    candidates: Sequence[Candidate],
    events: Sequence[Event],
    now: datetime,
    *,
    asked: Collection[str],
    protected: bool = False,
) -> list[Shut]:
    """Return all failed gates of the candidates.

    `events` are the source's DEPLOYMENTS and VERDICTS, oldest first; `asked` are the endpoints in its file: a
    removed endpoint cannot be verified again. A `protected` target accepts neither builds nor verdicts from
    uncommitted files.
    """
    refused = [event for event in events if protected and _is_loose_verdict(event)]
    accepted = [event for event in events if event not in refused]
    shut = [
        gate
        for candidate in candidates
        for gate in (
            *_deployed(spec, candidate, standing(candidate, accepted).among(asked), refused, now),
            *(_built(spec, candidate) if protected else ()),
            *_measured(spec, candidate),
        )
    ]
    return [*shut, *_window(spec, now)]


def standing(candidate: Candidate, events: Sequence[Event]) -> Standing:
    """What the events of an environment say of an artifact in it."""
    state = Standing()
    for event in events:
        touched = candidate.touched_by(event)
        if event.kind in ("deployed", "rolled-back"):
            state = _after_deploy(state, candidate, event, touched)
        elif event.kind in ("verified", "refuted") and state.since:
            state = _after_verdict(state, event, concerned=candidate.digest in touched)
    return state


def _after_deploy(state: Standing, candidate: Candidate, event: Event, touched: Collection[str]) -> Standing:
    if event.kind == "deployed" and set(touched) == {candidate.digest}:
        named = set(event.endpoints)
        return Standing(
            since=state.since or event.at,
            deployed=event.at,
            endpoints=state.endpoints | named,
            refutation=state.refutation,
            # A deploy may be of one endpoint, and says nothing of what another one answered.
            refuted=state.refuted - named,
        )
    if others := set(touched) - {candidate.digest}:
        return Standing(instead=min(others))
    if event.kind == "deployed" and not touched and state.since:
        left = state.endpoints - set(event.endpoints)
        return replace(state, endpoints=left) if left else Standing()
    return state


def _after_verdict(state: Standing, event: Event, *, concerned: bool) -> Standing:
    """One run of `verify` may refute one endpoint that serves an artifact, and pass another one."""
    named = set(event.endpoints)
    if event.kind == "verified":
        return replace(state, passed=event if concerned else state.passed, refuted=state.refuted - named)
    return replace(state, refutation=event, refuted=state.refuted | named) if concerned else state


def parse_overrides(given: Sequence[str]) -> dict[Gate, str]:
    """Parse `<gate>=<reason>`."""
    overrides: dict[Gate, str] = {}
    for text in given:
        name, _, reason = text.partition("=")
        gate = next((gate for gate in GATES if gate == name.strip()), None)
        if gate is None:
            raise UsageError(
                f"there is no gate {name.strip()!r}", remedy=f"the gates are: {', '.join(GATES)}"
            )
        if not reason.strip():
            raise UsageError(
                f"gate {gate} is not overridden without a reason",
                remedy=f'write --override-gate {gate}="why it has to be now"; it is kept with the promotion',
            )
        overrides[gate] = " ".join(reason.split())
    return overrides


def override_note(shut: Sequence[Shut], overrides: Mapping[Gate, str]) -> str | None:
    """What the promotion's record says of the gates that were shut and overridden."""
    gates = sorted({gate.gate for gate in shut if gate.gate in overrides}, key=GATES.index)
    return "; ".join(f"gate {gate} overridden: {overrides[gate]}" for gate in gates) or None


def _is_loose_verdict(event: Event) -> bool:
    """Whether an event says that uncommitted files were verified. A refutation counts in any case."""
    return event.kind == "verified" and not is_committed(event.commit)


def _loose_words(candidate: Candidate, seen: Standing, refused: Sequence[Event]) -> str:
    """Which verdict does not count because of its files; empty if there is none."""
    found = [
        event
        for event in refused
        if candidate.digest in candidate.touched_by(event) and event.at >= str(seen.deployed)
    ]
    if not found:
        return ""
    return (
        f"; the verdict of {_shown(_moment(found[-1].at))} does not count: it is of {_loose_files(found[-1])}"
    )


def _loose_files(record: Event | Built) -> str:
    if record.commit is None:
        return "files that no commit holds"
    listed = f" ({list_files(record.uncommitted)})" if record.uncommitted else ""
    return f"{short_commit(record.commit)}{listed}"


def _built(spec: PromotionSpec, candidate: Candidate) -> Iterator[Shut]:
    """What was built from uncommitted files cannot be built again from any commit."""
    built = candidate.built
    if built is not None and not is_committed(built.commit):
        yield Shut(
            "committed",
            candidate.words,
            f"was built from {_loose_files(built)}; a protected environment requires a commit",
            f"commit the files and run `tritonstack build {spec.source}`, deploy and verify to open it",
        )


def _deployed(
    spec: PromotionSpec, candidate: Candidate, seen: Standing, refused: Sequence[Event], now: datetime
) -> Iterator[Shut]:
    source = spec.source
    if not spec.soaked_hours and not spec.verified:
        return
    if seen.since is None:
        runs = f"; it runs {_short(seen.instead)} there" if seen.instead else ""
        gate: Gate = "soaked_hours" if spec.soaked_hours else "verified"
        then = [
            *([f"`tritonstack verify {source}`"] if spec.verified else []),
            *([f"{spec.soaked_hours:g} hours"] if spec.soaked_hours else []),
        ]
        yield Shut(
            gate,
            candidate.words,
            f"is not deployed in {source}{runs}",
            f"`tritonstack deploy {source}` and then {' and '.join(then)} open it",
        )
        return
    soaked = now - _moment(seen.since)
    if soaked < timedelta(hours=spec.soaked_hours):
        opens = _moment(seen.since) + timedelta(hours=spec.soaked_hours)
        yield Shut(
            "soaked_hours",
            candidate.words,
            f"has been deployed in {source} for {soaked / timedelta(hours=1):.1f} hours, since "
            f"{_shown(_moment(seen.since))}, and {spec.soaked_hours:g} are asked for",
            f"it opens at {_shown(opens)}",
        )
    if spec.verified and (seen.verdict is None or seen.verdict.kind == "refuted"):
        since = f"since it was deployed there at {_shown(_moment(str(seen.deployed)))}"
        loose = _loose_words(candidate, seen, refused)
        words = f"has not been verified in {source} {since}{loose}"
        opens_by = "from a checkout without uncommitted files opens it" if loose else "opens it"
        if seen.verdict is not None:
            note = f" ({seen.verdict.note})" if seen.verdict.note else ""
            words = (
                f"was refuted in {source} at {_shown(_moment(seen.verdict.at))} by {seen.verdict.by}{note}"
            )
            opens_by = "opens it once that is mended"
        yield Shut("verified", candidate.words, words, f"`tritonstack verify {source}` {opens_by}")


def _measured(spec: PromotionSpec, candidate: Candidate) -> Iterator[Shut]:
    """Of an image nothing is measured by itself: what was, was measured of artifacts."""
    if candidate.image:
        return
    if candidate.unverified and candidate.name not in spec.allow_unverified:
        yield Shut(
            "allow_unverified",
            candidate.words,
            f"is unverified: {'; '.join(candidate.unverified)}",
            f"{WRITE_ANSWERS}, and build it again; or write "
            f"`promotion: {{allow_unverified: {{{candidate.name}: <reason>}}}}` in the environment's file",
        )
    figures = candidate.figures or Figures()
    again = f"another build that {spec.source} has proved opens it"
    if spec.min_cosine is not None and candidate.compared:
        found = figures.min_cosine
        if found is None or found < spec.min_cosine:
            words = (
                "has no measured cosine to its framework" if found is None else f"has a cosine of {found:.6f}"
            )
            yield Shut("min_cosine", candidate.words, f"{words}, and {spec.min_cosine:g} is asked for", again)
    if spec.max_latency_p99_ms is not None:
        slow = figures.p99_ms
        if slow is None or slow > spec.max_latency_p99_ms:
            words = (
                "has no measured latency" if slow is None else f"took {slow:.1f} ms at the 99th percentile"
            )
            yield Shut(
                "max_latency_p99_ms",
                candidate.words,
                f"{words}, and {spec.max_latency_p99_ms:g} ms are the limit",
                again,
            )


def _window(spec: PromotionSpec, now: datetime) -> Iterator[Shut]:
    if spec.is_open(now):
        return
    opening = next_opening(spec.windows, now)
    allowed = ", ".join(
        f"{' '.join(window.days)} {window.start}-{window.end} {window.timezone}" for window in spec.windows
    )
    yield Shut(
        "windows",
        "",
        f"it is {_shown(now)}, and promotions are allowed {allowed}",
        f"it opens at {_shown(opening)}" if opening else "none of them opens within a fortnight",
    )


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")
