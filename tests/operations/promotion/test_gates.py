"""Promotion gates, with events, figures, and time windows."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.operations.promotion.gates import (
    GateResult,
    PromotionCandidate,
    artifact_state,
    evaluate_gates,
    override,
    override_note,
)
from tritonstack.operations.promotion.windows import next_opening
from tritonstack.records.events import Event, EventKind, TouchedArtifact, TouchedImage
from tritonstack.records.locks import Built, Figures
from tritonstack.spec.environments.promotion import ChangeWindow, PromotionSpec
from tritonstack.workflows.promotion.promote import parse_overrides

OURS, OTHER = "ab" * 32, "cd" * 32
CANDIDATE = PromotionCandidate(
    "minilm", "cpu", OURS, Figures(min_cosine=0.999, p99_ms=9.0), endpoints=frozenset({"search", "other"})
)
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


def evaluated(
    spec: PromotionSpec, *events: Event, candidate: PromotionCandidate = CANDIDATE, protected: bool = False
) -> list[GateResult]:
    served = ("search", "other")
    return evaluate_gates(spec, [candidate], events, NOON, served=served, protected=protected)


def failed(
    spec: PromotionSpec, *events: Event, candidate: PromotionCandidate = CANDIDATE, protected: bool = False
) -> list[tuple[str, str]]:
    """Return the gate and the measured value of each failed gate."""
    results = evaluated(spec, *events, candidate=candidate, protected=protected)
    assert all(bool(result.remedy) != result.passed for result in results)
    return [(result.gate, result.measured) for result in results if not result.passed]


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
def test_deployment_time_of_an_artifact(events, since):
    expected = f"2026-11-{since}:00Z" if since else None
    assert artifact_state(CANDIDATE, events).since == expected


IMAGE = PromotionCandidate("serving", "cpu", f"sha256:{OURS}", image=True)


def runs(kind: EventKind, at: str, digest: str | None = OURS, **changes: Any) -> Event:
    """An event of an endpoint with this image."""
    image = [TouchedImage(folder="serving", kind="cpu", digest=f"sha256:{digest}")] if digest else []
    return event(kind, at, **{"images": tuple(image), **changes})


def test_image_is_soaked_and_verified_like_an_artifact():
    spec = PromotionSpec(source="dev", soaked_hours=48, min_cosine=0.9, max_latency_p99_ms=1.0)
    undeployed = [("soaked_hours", "not deployed"), ("verified", "not deployed")]
    assert failed(spec, event("deployed", "10T08:00"), candidate=IMAGE) == undeployed
    changed = [runs("deployed", "10T08:00", OTHER), runs("verified", "10T09:00", OTHER)]
    measured = [measured for _, measured in failed(spec, *changed, candidate=IMAGE)]
    assert ["cdcdcdcdcdcd runs" in text for text in measured] == [True, True]
    again = runs("deployed", "18T08:00")
    assert failed(spec, *changed, again, candidate=IMAGE) == [
        ("soaked_hours", "4.0 h"),
        ("verified", "not verified"),
    ]
    deployed = [*changed, runs("deployed", "16T08:00")]
    refuted = runs("refuted", "16T09:00")
    assert failed(spec, *deployed, refuted, candidate=IMAGE) == [("verified", "failed on search")]
    assert failed(spec, *deployed, runs("verified", "16T09:00"), candidate=IMAGE) == []


SOAKED = PromotionSpec(source="dev", soaked_hours=48, verified=False)


def test_sufficient_soak_time_passes_the_gate():
    assert failed(SOAKED, event("deployed", "16T12:00")) == []


def test_insufficient_soak_time_fails_the_gate():
    (result, _) = evaluated(SOAKED, event("deployed", "17T09:00"))
    assert (result.gate, result.measured, result.passed) == ("soaked_hours", "27.0 h", False)
    assert "2026-11-19T09:00Z" in result.remedy


VERIFIED = PromotionSpec(source="dev")
NEVER = "not verified"


@pytest.mark.parametrize(
    ("events", "measured"),
    [
        pytest.param([event("verified", "10T09:00")], None, id="verified"),
        pytest.param([event("refuted", "10T09:00"), event("verified", "10T10:00")], None, id="in the end"),
        pytest.param([], NEVER, id="never"),
        pytest.param(
            [event("verified", "10T09:00"), event("deployed", "10T10:00")],
            NEVER,
            id="before it was deployed again",
        ),
        pytest.param(
            [event("verified", "10T09:00"), event("refuted", "10T10:00")],
            "failed on search",
            id="refuted since",
        ),
        pytest.param([event("verified", "10T09:00", OTHER)], NEVER, id="another one was"),
        pytest.param(
            [
                event("refuted", "10T09:00", endpoints=("search",)),
                event("verified", "10T09:01", endpoints=("other",)),
            ],
            "failed on search",
            id="one endpoint passed where another did not",
        ),
        pytest.param(
            [
                event("refuted", "10T09:00", endpoints=("search",)),
                event("deployed", "10T10:00", endpoints=("other",)),
                event("verified", "10T11:00", endpoints=("other",)),
            ],
            "failed on search",
            id="another endpoint alone was deployed again, and passed",
        ),
        pytest.param(
            [
                event("refuted", "10T09:00", endpoints=("gone",)),
                event("verified", "10T10:00", endpoints=("search", "other")),
            ],
            None,
            id="an endpoint that was refuted is no longer in the file",
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
def test_the_last_verdict_after_the_last_deploy_counts(events, measured):
    expected = [("verified", measured)] if measured else []
    assert failed(VERIFIED, event("deployed", "10T08:00"), *events) == expected


BOTH = ("search", "other")


@pytest.mark.parametrize(
    ("events", "measured"),
    [
        pytest.param([event("verified", "10T09:00", endpoints=BOTH)], None, id="both at once"),
        pytest.param(
            [
                event("verified", "10T09:00", endpoints=("search",)),
                event("verified", "10T10:00", endpoints=("other",)),
            ],
            None,
            id="one after the other",
        ),
        pytest.param(
            [event("verified", "10T09:00", endpoints=("search",))], "not verified on other", id="one of two"
        ),
        pytest.param(
            [
                event("verified", "10T09:00", endpoints=BOTH),
                event("deployed", "10T10:00", endpoints=("other",)),
            ],
            "not verified on other",
            id="one of two since it was deployed again",
        ),
        pytest.param(
            [
                event("verified", "10T09:00", endpoints=BOTH),
                event("deployed", "10T10:00", endpoints=("other",)),
                event("verified", "10T11:00", endpoints=("search",)),
            ],
            "not verified on other",
            id="the wrong one again",
        ),
        pytest.param(
            [
                event("verified", "10T09:00", endpoints=("search",)),
                event("deployed", "10T10:00", None, endpoints=("other",)),
            ],
            None,
            id="the other one runs something else now",
        ),
        pytest.param(
            [
                event("verified", "10T09:00", endpoints=BOTH),
                event("refuted", "10T10:00", endpoints=("other",)),
                event("deployed", "10T11:00", endpoints=("other",)),
            ],
            "not verified on other",
            id="a failure, deployed again, and not verified",
        ),
    ],
)
def test_each_endpoint_that_runs_the_artifact_is_verified(events, measured):
    deployed = event("deployed", "10T08:00", endpoints=(*BOTH, "unrelated"))
    expected = [("verified", measured)] if measured else []
    assert failed(VERIFIED, deployed, *events) == expected


def test_endpoints_that_the_file_no_longer_names_are_not_passed_over():
    renamed = replace(CANDIDATE, endpoints=frozenset({"search-v2"}))
    events = [
        event("deployed", "10T08:00", endpoints=BOTH),
        event("verified", "10T09:00", endpoints=("search",)),
    ]
    ((gate, measured),) = failed(VERIFIED, *events, candidate=renamed)
    assert (gate, measured.split()[-1]) == ("verified", "other")


def without(figures: Figures | None, *, compared: bool = True) -> PromotionCandidate:
    return PromotionCandidate("minilm", "cpu", OURS, figures, compared)


MEASURED = PromotionSpec(source="dev", verified=False, min_cosine=0.9995, max_latency_p99_ms=8)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(without(Figures(min_cosine=0.9995, p99_ms=8)), [], id="just good enough"),
        pytest.param(CANDIDATE, [("min_cosine", "0.999000"), ("max_latency_p99_ms", "9.0 ms")], id="neither"),
        pytest.param(
            without(None),
            [("min_cosine", "not measured"), ("max_latency_p99_ms", "not measured")],
            id="not measured",
        ),
        pytest.param(without(Figures(p99_ms=3), compared=False), [], id="nothing to compare with"),
    ],
)
def test_the_gate_on_measured_figures(candidate, expected):
    assert failed(MEASURED, candidate=candidate) == expected


def test_passed_gates_are_listed_with_their_values():
    spec = MEASURED.model_copy(update={"soaked_hours": 24, "verified": True, "min_cosine": 0.99})
    built = Built(by="ann", at="2026-11-10T07:00:00Z", commit="c" * 40)
    results = evaluated(
        spec,
        event("deployed", "16T12:00"),
        event("verified", "16T13:00", commit="c" * 40),
        candidate=replace(CANDIDATE, built=built),
        protected=True,
    )
    assert [(gate.gate, gate.measured, gate.passed) for gate in results] == [
        ("soaked_hours", "48.0 h", True),
        ("verified", "passed on search", True),
        ("committed", "commit cccccccc", True),
        ("allow_unverified", "compared", True),
        ("min_cosine", "0.999000", True),
        ("max_latency_p99_ms", "9.0 ms", False),
    ]
    assert all(gate.required for gate in results)


ITSELF = "compared with itself only: no test input has expected outputs for y"
UNVERIFIED = PromotionCandidate("minilm", "cpu", OURS, Figures(min_cosine=1.0), unverified=(ITSELF,))


def test_an_unverified_artifact_needs_a_reason():
    spec = PromotionSpec(source="dev", verified=False, min_cosine=0.99)
    assert failed(spec, candidate=UNVERIFIED) == [("allow_unverified", f"unverified: {ITSELF}")]
    allowed = spec.model_copy(update={"allow_unverified": {"minilm": "compared by hand, see SEARCH-12"}})
    assert failed(allowed, candidate=UNVERIFIED) == []
    other = spec.model_copy(update={"allow_unverified": {"other": "compared by hand, see SEARCH-12"}})
    assert len(failed(other, candidate=UNVERIFIED)) == 1
    overrides = parse_overrides(["allow_unverified=INC-4711"])
    gates = evaluate_gates(spec, [UNVERIFIED], [], NOON, served=())
    assert "allow_unverified overridden: INC-4711" in str(override_note(override(gates, overrides)))


DUBLIN = ChangeWindow(start="09:00", end="16:00", timezone="Europe/Dublin")
BERLIN = ChangeWindow(days=("SUN",), start="02:30", end="05:00", timezone="Europe/Berlin")
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
        pytest.param("2026-03-28T12:00", NIGHT, "2026-03-29T01:00", id="a beginning that clocks leave out"),
        pytest.param("2027-03-27T12:00", BERLIN, "2027-03-28T01:00", id="and another one"),
        pytest.param("2026-10-24T12:00", NIGHT, "2026-10-25T00:30", id="a beginning that comes twice"),
    ],
)
def test_next_opening_of_a_change_window(now, window, opening):
    moment = datetime.fromisoformat(f"{now}Z")
    assert not window.is_open(moment)
    actual = next_opening([window], moment)
    assert actual == datetime.fromisoformat(f"{opening}Z")
    assert window.is_open(actual)


def test_a_closed_window_names_the_next_of_several():
    windows = (DUBLIN.model_copy(update={"days": ("FRI",)}), DUBLIN.model_copy(update={"days": ("THU",)}))
    spec = PromotionSpec(source="dev", verified=False, windows=windows)
    (*_, result) = evaluated(spec)
    assert (result.gate, result.measured, result.passed) == ("windows", "2026-11-18T12:00Z", False)
    assert "2026-11-19T09:00Z" in result.remedy
    assert failed(spec.model_copy(update={"windows": (*windows, DUBLIN)})) == []


def test_only_failed_gates_are_recorded_as_overridden():
    overrides = parse_overrides(["verified=  INC-1  is open ", "soaked_hours=the same"])
    gates = evaluate_gates(VERIFIED, [CANDIDATE], [event("deployed", "10T08:00")], NOON, served=("search",))
    assert str(override_note(override(gates, overrides))).endswith("verified overridden: INC-1 is open")
    assert override_note([]) is None


@pytest.mark.parametrize("option", ["verified", "verified=", "verified= ", "speed=now", ""])
def test_an_override_names_a_gate_and_a_reason(option):
    with pytest.raises(UsageError):
        parse_overrides([option])


COMMIT = "c" * 40
LOOSE = {"commit": f"{COMMIT}+uncommitted", "uncommitted": ("environments/dev.yaml",)}


def test_verdict_on_uncommitted_files_does_not_pass_the_gate_of_a_protected_environment():
    deployed, loose = event("deployed", "16T12:00"), event("verified", "16T13:00", **LOOSE)
    assert failed(VERIFIED, deployed, loose) == []
    (result, _) = evaluated(VERIFIED, deployed, loose, protected=True)
    assert (result.gate, result.measured, result.passed) == ("verified", "not verified", False)
    assert "cccccccc+uncommitted (environments/dev.yaml)" in result.reason
    committed = event("verified", "16T14:00", commit=COMMIT)
    assert failed(VERIFIED, deployed, loose, committed, protected=True) == []
    early = event("verified", "16T11:00", commit=COMMIT)
    assert failed(VERIFIED, early, deployed, loose, protected=True)


@pytest.mark.parametrize("commit", [None, f"{COMMIT}+", f"{COMMIT}+uncommitted"])
def test_a_verdict_without_a_full_commit_does_not_count(commit):
    verdict = event("verified", "16T13:00", commit=commit)
    assert len(failed(VERIFIED, event("deployed", "16T12:00"), verdict, protected=True)) == 1


def test_verdict_on_uncommitted_files_can_refute_but_not_clear():
    events = [event("deployed", "16T12:00"), event("verified", "16T13:00", commit=COMMIT)]
    events.append(event("refuted", "16T14:00", **LOOSE))
    assert len(failed(VERIFIED, *events, protected=True)) == 1
    assert len(failed(VERIFIED, *events, event("verified", "16T15:00", **LOOSE), protected=True)) == 1
    assert failed(VERIFIED, *events, event("verified", "16T15:00", commit=COMMIT), protected=True) == []


@pytest.mark.parametrize(
    ("built", "measured"),
    [
        (None, None),
        (Built(by="ann", at="2026-11-10T00:00:00Z", commit=COMMIT), None),
        (Built(by="ann", at="2026-11-10T00:00:00Z"), "files outside git"),
        (Built(by="ann", at="2026-11-10T00:00:00Z", commit=f"{COMMIT}+"), "cccccccc+uncommitted"),
        (Built(by="ann", at="2026-11-10T00:00:00Z", **LOOSE), "cccccccc+uncommitted (environments/dev.yaml)"),
    ],
)
def test_a_build_from_uncommitted_files_is_not_accepted(built, measured):
    events = event("deployed", "16T12:00"), event("verified", "16T13:00", commit=COMMIT)
    candidate = replace(CANDIDATE, built=built)
    assert failed(VERIFIED, *events, candidate=candidate) == []
    expected = [("committed", measured)] if measured else []
    assert failed(VERIFIED, *events, candidate=candidate, protected=True) == expected
