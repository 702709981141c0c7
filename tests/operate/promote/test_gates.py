"""Promotion gates, with events, figures, and time windows."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.files.environment.promotion import ChangeWindow, PromotionSpec
from tritonstack.files.records.events import Event, TouchedArtifact, TouchedImage
from tritonstack.files.records.locks import Built, Figures
from tritonstack.operate.promote.gates import (
    GateResult,
    PromotionCandidate,
    artifact_state,
    evaluate_gates,
    override,
    override_note,
)
from tritonstack.operate.promote.performance import next_opening
from tritonstack.operate.promote.promote import parse_overrides

OURS, OTHER = "ab" * 32, "cd" * 32
CANDIDATE = PromotionCandidate(
    "minilm", "cpu", OURS, Figures(min_cosine=0.999, p99_ms=9.0), endpoints=frozenset({"search", "other"})
)
IMAGE = PromotionCandidate("serving", "cpu", f"sha256:{OURS}", image=True)
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)  # a Wednesday
COMMIT = "c" * 40
LOOSE = {"commit": f"{COMMIT}+uncommitted", "uncommitted": ("environments/dev.yaml",)}


def event(line: str, *, image: bool = False, **changes: Any) -> Event:
    """Return an event of November 2026 from `<day>T<hour> <kind> [of-other|of-none] [endpoint ...]`.

    Usually it is of our artifact, and of the endpoint `search`.
    """
    at, kind, *words = line.split()
    endpoints = tuple(word for word in words if not word.startswith("of-")) or ("search",)
    digest = OTHER if "of-other" in words else OURS
    touched: dict[str, Any] = {}
    if image and "of-none" not in words:
        touched["images"] = (TouchedImage(folder="serving", kind="cpu", digest=f"sha256:{digest}"),)
    elif "of-none" not in words:
        touched["artifacts"] = (TouchedArtifact(model="minilm", target="cpu", digest=digest),)
    facts = {"environment": "dev", "at": f"2026-11-{at}:00:00Z", "by": "ann", **touched}
    return Event(**{"kind": kind, "endpoints": endpoints, **facts, **changes})


def evaluated(
    spec: PromotionSpec, *events: Event, candidate: PromotionCandidate = CANDIDATE, protected: bool = False
) -> list[GateResult]:
    served = ("search", "other")
    return evaluate_gates(spec, [candidate], events, NOON, served=served, protected=protected)


def failed(spec: PromotionSpec, *events: Event, **options: Any) -> list[tuple[str, str]]:
    """Return the gate and the measured value of each failed gate."""
    results = evaluated(spec, *events, **options)
    assert all(bool(result.remedy) != result.passed for result in results)
    return [(result.gate, result.measured) for result in results if not result.passed]


@pytest.mark.parametrize(
    ("events", "since"),
    [
        ([], None),
        (["10T08 built"], None),
        (["10T08 deployed"], "10T08"),
        (["10T08 deployed", "12T08 deployed"], "10T08"),
        (["10T08 deployed", "11T08 deployed of-other", "12T08 deployed"], "12T08"),
        (["10T08 deployed", "11T08 rolled-back of-other"], None),
        # rolled back to it, and not yet deployed
        (["10T08 deployed of-other", "11T08 rolled-back"], None),
        # its endpoints have lost it, all or one by one
        (["10T08 deployed", "11T08 deployed of-none"], None),
        (
            ["10T08 deployed search other", "11T08 deployed of-none search", "12T08 deployed of-none other"],
            None,
        ),
        (["10T08 deployed", "11T08 deployed of-none other"], "10T08"),
        (["10T08 deployed", "11T08 refuted"], "10T08"),
    ],
    ids=str,
)
def test_deployment_time_of_an_artifact(events, since):
    expected = f"2026-11-{since}:00:00Z" if since else None
    assert artifact_state(CANDIDATE, [event(line) for line in events]).since == expected


def test_image_is_soaked_and_verified_like_an_artifact():
    spec = PromotionSpec(source="dev", soaked_hours=48, min_cosine=0.9, max_latency_p99_ms=1.0)

    def failed_of(*lines: str) -> list[tuple[str, str]]:
        return failed(spec, *(event(line, image=True) for line in lines), candidate=IMAGE)

    undeployed = [("soaked_hours", "not deployed"), ("verified", "not deployed")]
    assert failed(spec, event("10T08 deployed"), candidate=IMAGE) == undeployed
    changed = ("10T08 deployed of-other", "10T09 verified of-other")
    assert ["cdcdcdcdcdcd runs" in measured for _, measured in failed_of(*changed)] == [True, True]
    soaking = [("soaked_hours", "4.0 h"), ("verified", "not verified")]
    assert failed_of(*changed, "18T08 deployed") == soaking
    deployed = (*changed, "16T08 deployed")
    assert failed_of(*deployed, "16T09 refuted") == [("verified", "failed on search")]
    assert failed_of(*deployed, "16T09 verified") == []


def test_soak_time():
    spec = PromotionSpec(source="dev", soaked_hours=48, verified=False)
    assert failed(spec, event("16T12 deployed")) == []
    (result, _) = evaluated(spec, event("17T09 deployed"))
    assert (result.gate, result.measured, result.passed) == ("soaked_hours", "27.0 h", False)
    assert "2026-11-19T09:00Z" in result.remedy


VERIFIED = PromotionSpec(source="dev")
NEVER = "not verified"


@pytest.mark.parametrize(
    ("events", "measured"),
    [
        (["10T09 verified"], None),
        (["10T09 refuted", "10T10 verified"], None),
        ([], NEVER),
        (["10T09 verified", "10T10 deployed"], NEVER),
        (["10T09 verified", "10T10 refuted"], "failed on search"),
        (["10T09 verified of-other"], NEVER),
        (["10T09 refuted search", "10T10 verified other"], "failed on search"),
        (["10T09 refuted search", "10T10 deployed other", "10T11 verified other"], "failed on search"),
        # an endpoint that was refuted is no longer in the file
        (["10T09 refuted gone", "10T10 verified search other"], None),
        # all that were refuted have passed since, one by one
        (["10T09 refuted search other", "10T10 verified search", "10T11 verified of-none other"], None),
    ],
    ids=str,
)
def test_the_last_verdict_after_the_last_deploy_counts(events, measured):
    expected = [("verified", measured)] if measured else []
    assert failed(VERIFIED, event("10T08 deployed"), *map(event, events)) == expected


@pytest.mark.parametrize(
    ("events", "measured"),
    [
        (["10T09 verified search other"], None),
        (["10T09 verified search", "10T10 verified other"], None),
        (["10T09 verified search"], "not verified on other"),
        (["10T09 verified search other", "10T10 deployed other"], "not verified on other"),
        # the wrong one again
        (
            ["10T09 verified search other", "10T10 deployed other", "10T11 verified search"],
            "not verified on other",
        ),
        # the other one runs something else now
        (["10T09 verified search", "10T10 deployed of-none other"], None),
        # a failure, deployed again, and not verified
        (
            ["10T09 verified search other", "10T10 refuted other", "10T11 deployed other"],
            "not verified on other",
        ),
    ],
    ids=str,
)
def test_each_endpoint_that_runs_the_artifact_is_verified(events, measured):
    expected = [("verified", measured)] if measured else []
    deployed = event("10T08 deployed search other unrelated")
    assert failed(VERIFIED, deployed, *map(event, events)) == expected


def test_endpoints_that_the_file_no_longer_names_are_not_passed_over():
    renamed = replace(CANDIDATE, endpoints=frozenset({"search-v2"}))
    events = [event("10T08 deployed search other"), event("10T09 verified search")]
    ((gate, measured),) = failed(VERIFIED, *events, candidate=renamed)
    assert (gate, measured.split()[-1]) == ("verified", "other")


MEASURED = PromotionSpec(source="dev", verified=False, min_cosine=0.9995, max_latency_p99_ms=8)


@pytest.mark.parametrize(
    ("figures", "compared", "expected"),
    [
        (Figures(min_cosine=0.9995, p99_ms=8), True, []),
        (CANDIDATE.figures, True, [("min_cosine", "0.999000"), ("max_latency_p99_ms", "9.0 ms")]),
        (None, True, [("min_cosine", "not measured"), ("max_latency_p99_ms", "not measured")]),
        (Figures(p99_ms=3), False, []),
    ],
    ids=["just good enough", "neither", "not measured", "nothing to compare with"],
)
def test_the_gate_on_measured_figures(figures, compared, expected):
    candidate = PromotionCandidate("minilm", "cpu", OURS, figures, compared)
    assert failed(MEASURED, candidate=candidate) == expected


def test_passed_gates_are_listed_with_their_values():
    spec = MEASURED.model_copy(update={"soaked_hours": 24, "verified": True, "min_cosine": 0.99})
    candidate = replace(CANDIDATE, built=Built(by="ann", at="2026-11-10T07:00:00Z", commit=COMMIT))
    events = [event("16T12 deployed"), event("16T13 verified", commit=COMMIT)]
    results = evaluated(spec, *events, candidate=candidate, protected=True)
    assert [(gate.gate, gate.measured, gate.passed) for gate in results] == [
        ("soaked_hours", "48.0 h", True),
        ("verified", "passed on search", True),
        ("committed", "commit cccccccc", True),
        ("allow_unverified", "compared", True),
        ("min_cosine", "0.999000", True),
        ("max_latency_p99_ms", "9.0 ms", False),
    ]
    assert all(gate.required for gate in results)


def test_an_unverified_artifact_needs_a_reason():
    itself = "compared with itself only: no test input has expected outputs for y"
    unverified = PromotionCandidate("minilm", "cpu", OURS, Figures(min_cosine=1.0), unverified=(itself,))
    spec = PromotionSpec(source="dev", verified=False, min_cosine=0.99)
    assert failed(spec, candidate=unverified) == [("allow_unverified", f"unverified: {itself}")]
    for model, count in (("minilm", 0), ("other", 1)):
        allowed = spec.model_copy(update={"allow_unverified": {model: "compared by hand, see SEARCH-12"}})
        assert len(failed(allowed, candidate=unverified)) == count


DUBLIN = ChangeWindow(start="09:00", end="16:00", timezone="Europe/Dublin")
BERLIN = ChangeWindow(days=("SUN",), start="02:30", end="05:00", timezone="Europe/Berlin")
NIGHT = ChangeWindow(days=("SUN",), start="01:30", end="03:00", timezone="Europe/Dublin")


@pytest.mark.parametrize(
    ("now", "window", "opening"),
    [
        pytest.param("2026-11-18T08:59", DUBLIN, "2026-11-18T09:00", id="in a minute, winter"),
        pytest.param("2026-07-15T07:59", DUBLIN, "2026-07-15T08:00", id="in a minute, summer"),
        pytest.param("2026-11-18T16:00", DUBLIN, "2026-11-19T09:00", id="the end is outside"),
        pytest.param("2026-03-27T17:00", DUBLIN, "2026-03-30T08:00", id="weekend, clocks go forward"),
        pytest.param("2026-10-23T17:00", DUBLIN, "2026-10-26T09:00", id="weekend, clocks go back"),
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
    windows = tuple(DUBLIN.model_copy(update={"days": (day,)}) for day in ("FRI", "THU"))
    spec = PromotionSpec(source="dev", verified=False, windows=windows)
    (*_, result) = evaluated(spec)
    assert (result.gate, result.measured, result.passed) == ("windows", "2026-11-18T12:00Z", False)
    assert "2026-11-19T09:00Z" in result.remedy
    assert failed(spec.model_copy(update={"windows": (*windows, DUBLIN)})) == []


def test_only_failed_gates_are_recorded_as_overridden():
    overrides = parse_overrides(["verified=  INC-1  is open ", "soaked_hours=the same"])
    note = override_note(override(evaluated(VERIFIED, event("10T08 deployed")), overrides))
    assert note == "gate verified overridden: INC-1 is open"
    assert override_note([]) is None


@pytest.mark.parametrize("option", ["verified", "verified= ", "speed=now", ""])
def test_an_override_names_a_gate_and_a_reason(option):
    with pytest.raises(UsageError):
        parse_overrides([option])


def test_a_protected_environment_needs_a_verdict_on_committed_files():
    deployed, loose = event("16T12 deployed"), event("16T13 verified", **LOOSE)
    assert failed(VERIFIED, deployed, loose) == []
    (result, _) = evaluated(VERIFIED, deployed, loose, protected=True)
    assert (result.gate, result.measured, result.passed) == ("verified", "not verified", False)
    assert "cccccccc+uncommitted (environments/dev.yaml)" in result.reason
    for verdict, count in (
        (event("16T14 verified", commit=COMMIT), 0),
        (event("16T14 verified", commit=None), 1),
        (event("16T14 verified", commit=f"{COMMIT}+"), 1),
    ):
        assert len(failed(VERIFIED, deployed, loose, verdict, protected=True)) == count
    assert failed(VERIFIED, event("16T11 verified", commit=COMMIT), deployed, loose, protected=True)


def test_verdict_on_uncommitted_files_can_refute_but_not_clear():
    events = [
        event("16T12 deployed"),
        event("16T13 verified", commit=COMMIT),
        event("16T14 refuted", **LOOSE),
    ]
    assert len(failed(VERIFIED, *events, protected=True)) == 1
    assert len(failed(VERIFIED, *events, event("16T15 verified", **LOOSE), protected=True)) == 1
    assert failed(VERIFIED, *events, event("16T15 verified", commit=COMMIT), protected=True) == []


@pytest.mark.parametrize(
    ("built", "measured"),
    [
        (None, None),
        ({"commit": COMMIT}, None),
        ({}, "files outside git"),
        ({"commit": f"{COMMIT}+"}, "cccccccc+uncommitted"),
        (LOOSE, "cccccccc+uncommitted (environments/dev.yaml)"),
    ],
)
def test_a_build_from_uncommitted_files_is_not_accepted(built, measured):
    events = event("16T12 deployed"), event("16T13 verified", commit=COMMIT)
    record = None if built is None else Built(by="ann", at="2026-11-10T00:00:00Z", **built)
    candidate = replace(CANDIDATE, built=record)
    assert failed(VERIFIED, *events, candidate=candidate) == []
    expected = [("committed", measured)] if measured else []
    assert failed(VERIFIED, *events, candidate=candidate, protected=True) == expected
