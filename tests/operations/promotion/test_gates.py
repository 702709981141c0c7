"""Promotion gates, with events, figures, and time windows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.operations.promotion.gates import (
    PromotionCandidate,
    artifact_state,
    evaluate_gates,
    override_note,
)
from tritonstack.operations.promotion.windows import next_opening
from tritonstack.records.events import Event, EventKind, TouchedArtifact, TouchedImage
from tritonstack.records.locks import Built, Figures
from tritonstack.spec.environments.promotion import ChangeWindow, PromotionSpec
from tritonstack.workflows.promotion.promote import parse_overrides

OURS, OTHER = "ab" * 32, "cd" * 32
CANDIDATE = PromotionCandidate("minilm", "cpu", OURS, Figures(min_cosine=0.999, p99_ms=9.0))
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)  # a Wednesday


def event(kind: EventKind, at: str, digest: str | None = OURS, **changes: Any) -> Event:
    touched = [TouchedArtifact(model="minilm", target="cpu", digest=digest)] if digest else []
    usual = Event(
        kind=kind,
        environment="dev",
        at=f"2026-11-{at}:00Z",
        by="ann",
        endpoints=("search",),
        artifacts=tuple(touched),
    )
    return usual.model_copy(update=changes)


def shut(spec: PromotionSpec, *events: Event, candidate: PromotionCandidate = CANDIDATE) -> list[str]:
    return [str(gate) for gate in evaluate_gates(spec, [candidate], events, NOON, asked=("search", "other"))]


@pytest.mark.parametrize(
    ("events", "since"),
    [
        pytest.param([], None, id="nothing has happened"),
        pytest.param([event("built", "10T08:00")], None, id="built is not deployed"),
        pytest.param([event("deployed", "10T08:00")], "10T08:00", id="deployed"),
        pytest.param(
            [event("deployed", "10T08:00"), event("deployed", "12T08:00")], "10T08:00", id="deployed again"
        ),
        pytest.param(
            [
                event("deployed", "10T08:00"),
                event("deployed", "11T08:00", OTHER),
                event("deployed", "12T08:00"),
            ],
            "12T08:00",
            id="another one in between",
        ),
        pytest.param(
            [event("deployed", "10T08:00"), event("rolled-back", "11T08:00", OTHER)], None, id="rolled back"
        ),
        pytest.param(
            [event("deployed", "10T08:00", OTHER), event("rolled-back", "11T08:00")],
            None,
            id="rolled back to it, and not yet deployed",
        ),
        pytest.param(
            [event("deployed", "10T08:00"), event("deployed", "11T08:00", None)],
            None,
            id="its endpoint has lost it",
        ),
        pytest.param(
            [
                event("deployed", "10T08:00", endpoints=("search", "other")),
                event("deployed", "11T08:00", None, endpoints=("search",)),
                event("deployed", "12T08:00", None, endpoints=("other",)),
            ],
            None,
            id="its endpoints have lost it one by one",
        ),
        pytest.param(
            [event("deployed", "10T08:00"), event("deployed", "11T08:00", None, endpoints=("other",))],
            "10T08:00",
            id="another endpoint was deployed",
        ),
        pytest.param(
            [event("deployed", "10T08:00"), event("refuted", "11T08:00")],
            "10T08:00",
            id="refuted, but deployed",
        ),
    ],
)
def test_deployment_time_of_an_artifact(events: list[Event], since: str | None) -> None:
    expected = f"2026-11-{since}:00Z" if since else None
    assert artifact_state(CANDIDATE, events).since == expected


IMAGE = PromotionCandidate("serving", "cpu", f"sha256:{OURS}", image=True)


def runs(kind: EventKind, at: str, digest: str | None = OURS, **changes: Any) -> Event:
    """An event of an endpoint with this image."""
    image = [TouchedImage(folder="serving", kind="cpu", digest=f"sha256:{digest}")] if digest else []
    return event(kind, at, **{"images": tuple(image), **changes})


def test_image_is_soaked_and_verified_like_an_artifact() -> None:
    spec = PromotionSpec(source="dev", soaked_hours=48, min_cosine=0.9, max_latency_p99_ms=1.0)
    assert shut(spec, event("deployed", "10T08:00"), candidate=IMAGE) == [
        "gate soaked_hours failed: image serving for cpu (abababababab) is not deployed in dev; "
        "run `tritonstack deploy dev`, then run `tritonstack verify dev` and wait 48 hours"
    ]
    changed = [runs("deployed", "10T08:00", OTHER), runs("verified", "10T09:00", OTHER)]
    (said,) = shut(spec, *changed, candidate=IMAGE)
    assert "is not deployed in dev; cdcdcdcdcdcd runs there" in said
    said, also = shut(spec, *changed, runs("deployed", "18T08:00"), candidate=IMAGE)
    assert "image serving for cpu (abababababab) has been deployed in dev for 4.0 hours" in said
    assert "has not been verified in dev since its deployment at 2026-11-18T08:00Z" in also
    deployed = [*changed, runs("deployed", "16T08:00")]
    assert len(shut(spec, *deployed, runs("refuted", "16T09:00"), candidate=IMAGE)) == 1
    assert shut(spec, *deployed, runs("verified", "16T09:00"), candidate=IMAGE) == []


SOAKED = PromotionSpec(source="dev", soaked_hours=48, verified=False)


def test_sufficient_soak_time_passes_the_gate() -> None:
    assert shut(SOAKED, event("deployed", "16T12:00")) == []


def test_insufficient_soak_time_fails_the_gate() -> None:
    assert shut(SOAKED, event("deployed", "17T09:00")) == [
        "gate soaked_hours failed: minilm for cpu (abababababab) has been deployed in dev for 27.0 hours "
        "(since 2026-11-17T09:00Z), required: 48; passes at 2026-11-19T09:00Z"
    ]


def test_an_undeployed_artifact_is_reported_once() -> None:
    spec = PromotionSpec(source="dev", soaked_hours=48)
    assert shut(spec, event("deployed", "17T09:00", OTHER)) == [
        "gate soaked_hours failed: minilm for cpu (abababababab) is not deployed in dev; "
        "cdcdcdcdcdcd runs there; run `tritonstack deploy dev`, then run `tritonstack verify dev` and "
        "wait 48 hours"
    ]


VERIFIED = PromotionSpec(source="dev")


@pytest.mark.parametrize(
    ("events", "says"),
    [
        pytest.param([event("verified", "10T09:00")], None, id="verified"),
        pytest.param([event("refuted", "10T09:00"), event("verified", "10T10:00")], None, id="in the end"),
        pytest.param(
            [],
            "has not been verified in dev since its deployment at 2026-11-10T08:00Z; "
            "run `tritonstack verify dev`",
            id="never",
        ),
        pytest.param(
            [event("verified", "10T09:00"), event("deployed", "10T10:00")],
            "has not been verified in dev since its deployment at 2026-11-10T10:00Z; "
            "run `tritonstack verify dev`",
            id="before it was deployed again",
        ),
        pytest.param(
            [event("verified", "10T09:00"), event("refuted", "10T10:00", note="answers differ")],
            "failed verification in dev at 2026-11-10T10:00Z by ann (answers differ); run `tritonstack "
            "verify dev` "
            "after fixing that",
            id="refuted since",
        ),
        pytest.param(
            [event("verified", "10T09:00", OTHER)],
            "has not been verified in dev since its deployment at 2026-11-10T08:00Z; "
            "run `tritonstack verify dev`",
            id="another one was",
        ),
        pytest.param(
            [
                event("refuted", "10T09:00", endpoints=("search",)),
                event("verified", "10T09:01", endpoints=("other",)),
            ],
            "failed verification in dev at 2026-11-10T09:00Z by ann; run `tritonstack verify dev` "
            "after fixing that",
            id="one endpoint passed where another did not",
        ),
        pytest.param(
            [
                event("refuted", "10T09:00", endpoints=("search",)),
                event("deployed", "10T10:00", endpoints=("other",)),
                event("verified", "10T11:00", endpoints=("other",)),
            ],
            "failed verification in dev at 2026-11-10T09:00Z by ann; run `tritonstack verify dev` "
            "after fixing that",
            id="another endpoint alone was deployed again, and passed",
        ),
        pytest.param(
            [
                event("refuted", "10T09:00", endpoints=("gone",)),
                event("verified", "10T10:00", endpoints=("search", "other")),
            ],
            None,
            id="an endpoint that was refuted is asked for no more",
        ),
        pytest.param(
            [
                event("refuted", "10T09:00", endpoints=("search", "other")),
                event("verified", "10T10:00", endpoints=("search",)),
                event("verified", "10T11:00", None, endpoints=("other",)),
            ],
            None,
            id="all that were refuted have passed since, one by one",
        ),
    ],
)
def test_the_last_verdict_after_the_last_deploy_counts(events: list[Event], says: str | None) -> None:
    subject = "gate verified failed: minilm for cpu (abababababab) "
    expected = [f"{subject}{says}"] if says else []
    assert shut(VERIFIED, event("deployed", "10T08:00"), *events) == expected


def without(figures: Figures | None, *, compared: bool = True) -> PromotionCandidate:
    return PromotionCandidate("minilm", "cpu", OURS, figures, compared)


MEASURED = PromotionSpec(source="dev", verified=False, min_cosine=0.9995, max_latency_p99_ms=8)


@pytest.mark.parametrize(
    ("candidate", "gates"),
    [
        pytest.param(without(Figures(min_cosine=0.9995, p99_ms=8)), [], id="just good enough"),
        pytest.param(CANDIDATE, ["has cosine 0.999000", "a p99 latency of 9.0 ms"], id="neither"),
        pytest.param(without(None), ["no measured cosine", "no measured latency"], id="not measured"),
        pytest.param(without(Figures(p99_ms=3), compared=False), [], id="nothing to compare with"),
    ],
)
def test_the_gate_on_measured_figures(candidate: PromotionCandidate, gates: list[str]) -> None:
    found = shut(MEASURED, candidate=candidate)
    assert len(found) == len(gates)
    assert all(words in gate for gate, words in zip(found, gates, strict=True))


ITSELF = "compared with itself only: no test input has expected outputs for y"
UNVERIFIED = PromotionCandidate("minilm", "cpu", OURS, Figures(min_cosine=1.0), unverified=(ITSELF,))


def test_an_unverified_artifact_needs_a_reason() -> None:
    spec = PromotionSpec(source="dev", verified=False, min_cosine=0.99)
    (said,) = shut(spec, candidate=UNVERIFIED)
    assert said.startswith(
        f"gate allow_unverified failed: minilm for cpu (abababababab) is unverified: {ITSELF}"
    )
    assert "`promotion: {allow_unverified: {minilm: <reason>}}`" in said
    allowed = spec.model_copy(update={"allow_unverified": {"minilm": "compared by hand, see SEARCH-12"}})
    assert shut(allowed, candidate=UNVERIFIED) == []
    other = spec.model_copy(update={"allow_unverified": {"other": "compared by hand, see SEARCH-12"}})
    assert len(shut(other, candidate=UNVERIFIED)) == 1
    overrides = parse_overrides(["allow_unverified=INC-4711"])
    gates = evaluate_gates(spec, [UNVERIFIED], [], NOON, asked=())
    assert override_note(gates, overrides) == "gate allow_unverified overridden: INC-4711"


DUBLIN = ChangeWindow(start="09:00", end="16:00", timezone="Europe/Dublin")
NIGHT = ChangeWindow(days=("SUN",), start="01:30", end="03:00", timezone="Europe/Dublin")


@pytest.mark.parametrize(
    ("now", "window", "opening"),
    [
        pytest.param("2026-11-18T08:59", DUBLIN, "2026-11-18T09:00", id="in a minute, winter"),
        pytest.param("2026-07-15T07:59", DUBLIN, "2026-07-15T08:00", id="in a minute, summer"),
        pytest.param("2026-11-18T16:00", DUBLIN, "2026-11-19T09:00", id="the end is outside"),
        pytest.param("2026-11-20T17:00", DUBLIN, "2026-11-23T09:00", id="after the weekend"),
        pytest.param("2026-03-27T17:00", DUBLIN, "2026-03-30T08:00", id="clocks go forward in between"),
        pytest.param("2026-10-23T17:00", DUBLIN, "2026-10-26T09:00", id="clocks go back in between"),
        pytest.param("2026-03-28T12:00", NIGHT, "2026-03-29T01:30", id="a beginning that clocks leave out"),
        pytest.param("2026-10-24T12:00", NIGHT, "2026-10-25T00:30", id="a beginning that comes twice"),
    ],
)
def test_next_opening_of_a_change_window(now: str, window: ChangeWindow, opening: str) -> None:
    moment = datetime.fromisoformat(f"{now}Z")
    assert not window.is_open(moment)
    found = next_opening([window], moment)
    assert found == datetime.fromisoformat(f"{opening}Z")
    assert window.is_open(found)


def test_a_closed_window_names_the_next_of_several() -> None:
    windows = (DUBLIN.model_copy(update={"days": ("FRI",)}), DUBLIN.model_copy(update={"days": ("THU",)}))
    spec = PromotionSpec(source="dev", verified=False, windows=windows)
    assert shut(spec) == [
        "gate windows failed: outside the change windows at 2026-11-18T12:00Z (allowed: FRI 09:00-16:00 "
        "Europe/Dublin, THU 09:00-16:00 Europe/Dublin); the next window opens at 2026-11-19T09:00Z"
    ]
    assert shut(spec.model_copy(update={"windows": (*windows, DUBLIN)})) == []


def test_only_failed_gates_are_recorded_as_overridden() -> None:
    overrides = parse_overrides(["verified=the endpoint  is down", "soaked_hours=the same"])
    gates = evaluate_gates(VERIFIED, [CANDIDATE], [event("deployed", "10T08:00")], NOON, asked=("search",))
    assert override_note(gates, overrides) == "gate verified overridden: the endpoint is down"
    assert override_note([], overrides) is None


@pytest.mark.parametrize("given", ["verified", "verified=", "verified= ", "speed=now", ""])
def test_an_override_names_a_gate_and_a_reason(given: str) -> None:
    with pytest.raises(UsageError):
        parse_overrides([given])


COMMIT = "c" * 40
LOOSE = {"commit": f"{COMMIT}+uncommitted", "uncommitted": ("environments/dev.yaml",)}


def shut_to_protected(
    *events: Event, candidate: PromotionCandidate = CANDIDATE, protected: bool = True
) -> list[str]:
    gates = evaluate_gates(VERIFIED, [candidate], events, NOON, asked=("search",), protected=protected)
    return [str(gate) for gate in gates]


def test_verdict_on_uncommitted_files_does_not_pass_the_gate_of_a_protected_environment() -> None:
    deployed, loose = event("deployed", "16T12:00"), event("verified", "16T13:00", **LOOSE)
    assert shut_to_protected(deployed, loose, protected=False) == []
    assert shut_to_protected(deployed, loose) == [
        "gate verified failed: minilm for cpu (abababababab) has not been verified in dev since its "
        "deployment at 2026-11-16T12:00Z; the verdict of 2026-11-16T13:00Z is ignored: it is from "
        "cccccccc+uncommitted (environments/dev.yaml); run `tritonstack verify dev` from a checkout without "
        "uncommitted files"
    ]
    assert shut_to_protected(deployed, loose, event("verified", "16T14:00", commit=COMMIT)) == []
    assert shut_to_protected(event("verified", "16T11:00", commit=COMMIT), deployed, loose)


@pytest.mark.parametrize("commit", [None, f"{COMMIT}+", f"{COMMIT}+uncommitted"])
def test_a_verdict_without_a_full_commit_does_not_count(commit: str | None) -> None:
    verdict = event("verified", "16T13:00", commit=commit)
    assert len(shut_to_protected(event("deployed", "16T12:00"), verdict)) == 1


def test_verdict_on_uncommitted_files_can_refute_but_not_clear() -> None:
    deployed, passed = event("deployed", "16T12:00"), event("verified", "16T13:00", commit=COMMIT)
    refuted = event("refuted", "16T14:00", **LOOSE)
    assert len(shut_to_protected(deployed, passed, refuted)) == 1
    assert len(shut_to_protected(deployed, passed, refuted, event("verified", "16T15:00", **LOOSE))) == 1
    assert shut_to_protected(deployed, passed, refuted, event("verified", "16T15:00", commit=COMMIT)) == []


@pytest.mark.parametrize(
    ("built", "words"),
    [
        (None, None),
        (Built(by="ann", at="2026-11-10T00:00:00Z", commit=COMMIT), None),
        (Built(by="ann", at="2026-11-10T00:00:00Z"), "files outside git"),
        (Built(by="ann", at="2026-11-10T00:00:00Z", commit=f"{COMMIT}+"), "cccccccc+uncommitted"),
        (
            Built(by="ann", at="2026-11-10T00:00:00Z", **LOOSE),
            "cccccccc+uncommitted (environments/dev.yaml)",
        ),
    ],
)
def test_a_build_from_uncommitted_files_is_not_accepted(built: Built | None, words: str | None) -> None:
    events = event("deployed", "16T12:00"), event("verified", "16T13:00", commit=COMMIT)
    candidate = replace(CANDIDATE, built=built)
    assert shut_to_protected(*events, candidate=candidate, protected=False) == []
    expected = [
        f"gate committed failed: minilm for cpu (abababababab) was built from {words}; a protected "
        "environment requires a commit; commit the files, run `tritonstack build dev`, then deploy and "
        "verify"
    ]
    assert shut_to_protected(*events, candidate=candidate) == (expected if words else [])
