"""Verdicts: requirements on stacks, artifacts, and answers, and the recorded events."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.operate.strict_aws import client_error
from tests.projects import edit
from tests.stacks.assemblies import lock_everything
from tritonstack.base.error_kinds import NotRecordedError
from tritonstack.base.paths import Project
from tritonstack.base.results import document
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import read_events
from tritonstack.operate.shared.revisions import Revision
from tritonstack.operate.shared.stacks import StackState
from tritonstack.operate.verify.checks import Check
from tritonstack.operate.verify.expectations import StackFacts
from tritonstack.operate.verify.live import DeployedStack, deployed_stack
from tritonstack.operate.verify.smoke import SmokeResult
from tritonstack.operate.verify.verdicts import (
    EndpointVerdict,
    Placed,
    Verdict,
    place_failure,
    record_verdict,
    smoke_check,
    stack_check,
    verdict_events,
    with_smoke,
)

NAME = "tritonstack-dev-endpoint-search"
WANTED: dict[str, Any] = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {}}}}
OTHER: dict[str, Any] = {"Resources": {}}


def standing(status: str, template: Any = WANTED, reason: str = "") -> DeployedStack:
    return DeployedStack(StackState(NAME, status, reason), StackFacts(NAME, "1", "eu-west-1"), template)


@pytest.mark.parametrize(
    ("stack", "failure", "note"),
    [
        (standing("CREATE_COMPLETE"), "", ""),
        (standing("UPDATE_COMPLETE"), "", ""),
        (standing("UPDATE_ROLLBACK_COMPLETE", reason="alarm fired"), "", "alarm fired"),
        (standing("UPDATE_COMPLETE", OTHER), "is changed", ""),
        (standing("UPDATE_ROLLBACK_COMPLETE", OTHER), "is changed", "rolled back"),
        (standing("UPDATE_IN_PROGRESS"), "(UPDATE_IN_PROGRESS)", ""),
        (standing("UPDATE_ROLLBACK_FAILED", reason="no rights"), "FAILED: no rights", ""),
        (standing("ROLLBACK_COMPLETE", None), "ROLLBACK_COMPLETE", ""),
        (standing("REVIEW_IN_PROGRESS", None), "(REVIEW_IN_PROGRESS)", ""),
        (None, "does not exist", ""),
    ],
)
def test_a_stack_must_exist_be_stable_and_match(stack, failure, note):
    check = stack_check(NAME, stack, WANTED)
    for words, lines in ((failure, check.failures), (note, check.notes)):
        assert [line.endswith(words) for line in lines] == [True] * bool(words)


def test_a_stack_is_read_with_its_resolved_references(cloud):
    body = '{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}, "Parameters": {"A": {"Type": "String"}}}'
    cloud.client("cloudformation").create_stack(
        StackName=NAME, TemplateBody=body, Parameters=[{"ParameterKey": "A", "ParameterValue": "value"}]
    )
    stack = deployed_stack(cloud, NAME)
    assert stack is not None
    assert stack.facts.parameters == {"A": "value"}
    assert stack.facts.resources["Topic"].startswith("arn:aws:sns:")
    assert stack.template == json.loads(body)
    assert deployed_stack(cloud, f"{NAME}-two") is None


ARTIFACT = LockedArtifact(digest="ab" * 32, spec_hash="cd" * 32, archive_bytes=7, unpacked_bytes=9)
PLACE = Placed("minilm", ARTIFACT, "models/minilm/x/model.tar.gz")
THERE = "s3://b/models/minilm/x/model.tar.gz"


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (None, ("not found",)),
        ({"ContentLength": 8, "Metadata": {"sha256": "ab" * 32}}, ("8 bytes", "expected 7 ")),
        ({"ContentLength": 7}, ("digest none", "with abababababab")),
    ],
)
def test_archive_has_a_size_and_a_note(head, words):
    failure = place_failure(PLACE, head, bucket="b") or ""
    assert all(word in failure for word in ("minilm", THERE, *words))
    assert place_failure(PLACE, {"ContentLength": 7, "Metadata": {"sha256": "ab" * 32}}, bucket="b") is None


@pytest.fixture
def workspace(cloud: Cloud, project: Project) -> Workspace:
    """One multi-model endpoint with a built model, in an account simulated by moto."""
    file = project.environment_file("dev")
    edit(file, "1" * 12, cloud.account)
    edit(file, "eu-west-1", cloud.region)
    edit(file, "kind: ensemble", "kind: multi-model")
    edit(file, "model: minilm", "models: [minilm]")
    lock_everything(project, "dev")
    edit(project.lock_file("dev"), "90000000", "9000")  # what is put there is made, sent and hashed
    workspace = load_workspace(project, "dev")
    cloud.client("s3").create_bucket(Bucket=workspace.spec.artifact_bucket)
    return workspace


def answer(**changes: Any) -> SmokeResult:
    facts: dict[str, Any] = {
        "endpoint": "search",
        "model": "minilm",
        "digest": "ab" * 32,
        "variant": "main",
        "example": "first",
        "outcome": "ok",
        "milliseconds": 12.0,
    }
    return SmokeResult(**{**facts, **changes})


def test_answers_are_counted_and_wrong_ones_reported():
    shadow = answer(outcome="skipped", variant="shadow", example="", detail="impossible", milliseconds=None)
    check = smoke_check([answer(), answer(outcome="wrong", detail="off by 2", milliseconds=30.0), shadow])
    (failure,), (note,) = check.failures, check.notes
    assert failure.startswith("main: minilm, first")
    assert failure.endswith("off by 2")
    assert note.startswith("shadow: minilm")
    assert check.detail == "1 of 2 correct, slowest 30 ms"


def test_unchecked_models_are_listed_with_the_verdict():
    shadow = answer(outcome="skipped", variant="shadow", detail="impossible", milliseconds=None)
    cut_short = answer(outcome="skipped", example="step 2", detail="it keeps a state")
    tested = verdict(with_smoke(GOOD, [answer(), cut_short, shadow]))
    assert tested.summary.endswith(": search/shadow")
    (endpoint,) = document(tested)["endpoints"]
    assert endpoint["not_tested"] == [{"variant": "shadow", "model": "minilm", "reason": "impossible"}]
    assert len(tested.endpoints[0].checks[-1].notes) == 2


def verdict(*endpoints: EndpointVerdict, tested: bool = True, **facts: Any) -> Verdict:
    return Verdict("dev", Revision("c" * 40), endpoints, tested=tested, **facts)


GOOD = EndpointVerdict("search", "tritonstack-dev-search", (Check("alarms", compared=3),))
BAD = EndpointVerdict("search", "tritonstack-dev-search", (Check("alarms", ("one fires",)),))


REFUTED = ("refuted", "search: alarms: one fires")


def kinds(workspace: Workspace, verdict: Verdict) -> list[tuple[str, str]]:
    return [(event.kind, event.note) for event in verdict_events(workspace, verdict)]


def test_the_recorded_verdict(workspace):
    assert kinds(workspace, verdict(GOOD)) == [("verified", "")]
    assert kinds(workspace, verdict(BAD)) == [REFUTED]
    # Its answers are unchecked, so a promotion must not rely on it.
    assert kinds(workspace, verdict(GOOD, tested=False)) == []
    assert kinds(workspace, verdict(BAD, tested=False)) == [REFUTED]


def test_an_error_in_a_shared_stack_refutes_all_endpoints(workspace):
    broken = (Check("foundation", ("missing",)),)
    assert kinds(workspace, verdict(GOOD, stacks=broken)) == [("refuted", "foundation: missing")]


def test_an_artifact_of_two_endpoints_is_refuted_if_either_fails(workspace):
    """A promotion uses the latest event of an artifact."""
    spec, other = workspace.spec, replace(GOOD, name="another")
    both = spec.model_copy(update={"endpoints": {**spec.endpoints, "another": spec.endpoints["search"]}})
    two = replace(workspace, environment=replace(workspace.environment, record=both))
    first, last = verdict_events(two, replace(verdict(BAD), endpoints=(BAD, other)))
    assert (first.kind, last.kind) == ("verified", "refuted")
    assert first.at < last.at


def test_a_verdict_is_stored_and_reported_if_it_cannot_be(cloud, workspace, monkeypatch):
    (written,) = record_verdict(cloud, workspace, verdict(GOOD))
    assert read_events(cloud, workspace.spec.artifact_bucket) == [written]
    assert (written.kind, written.endpoints) == ("verified", ("search",))

    def fail(*_: object) -> None:
        raise client_error("PutObject", "AccessDenied", "no")

    monkeypatch.setattr("tritonstack.operate.verify.verdicts.record_event", fail)
    with pytest.raises(NotRecordedError, match="cccccccc"):
        record_verdict(cloud, workspace, verdict(BAD))
