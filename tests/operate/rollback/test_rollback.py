"""Rollback targets, chosen from locks in git without AWS calls."""

import pytest

from tests.files.records.test_locks import BUILT
from tests.operate.locks.locked_project import LockedProject
from tritonstack.base.revisions import short_commit
from tritonstack.files.records.lock_writing import replace_entries
from tritonstack.files.records.locks import RolledBack
from tritonstack.operate.rollback.rollback import record_rollback
from tritonstack.operate.rollback.rollback_targets import (
    RollbackError,
    RollbackPlan,
    as_planned,
    earlier_target,
    entries_to_write,
    plan_rollback,
)
from tritonstack.operate.shared.events import read_events

WHO = RolledBack(instead_of="", as_of="", by="ann", at="2026-11-25T08:30:00Z")


class RollbackProject(LockedProject):
    def plan(self, to: str | None = None, endpoint: str = "search") -> RollbackPlan:
        return plan_rollback(self.workspace, endpoint, self.history, to=to)

    def write(self, plan: RollbackPlan) -> None:
        replace_entries(self.lock_file, entries_to_write(self.workspace, plan, WHO))

    def go_back(self) -> None:
        self.write(self.plan())
        self.repository.commit("went back")

    def serve_two_models(self) -> None:
        self.add_model("other")
        self.edit("kind: ensemble\n    model: minilm", "kind: multi-model\n    models: [minilm, other]")


@pytest.fixture
def story(tmp_path):
    return RollbackProject(tmp_path / "project")


def steps(plan: RollbackPlan) -> list[str]:
    return [
        f"{step.slot.name} {step.then.key} {step.now.entry.digest[:2]}->{step.then.entry.digest[:2]}"
        for step in plan.steps
    ]


def test_the_latest_other_digest_is_restored(story):
    story.lock("11")
    commit = story.lock("22")
    story.lock("33")
    plan = story.plan()
    assert steps(plan) == ["minilm cpu 33->22"]
    assert plan.origin.startswith(f"commit {short_commit(commit)} of 2026-11-22T")
    assert "minilm for cpu: 333333333333 -> 222222222222" in plan.steps[0].description
    # Versions that changed only another model are skipped.
    story.add_model("other")
    story.lock("aa", model="other")
    assert steps(story.plan()) == ["minilm cpu 33->22"]


def test_digest_or_commit_can_be_given(story):
    commit = story.lock("11")
    story.lock("22", "33")
    for to in ("1111", "11" * 32, commit[:7], commit):
        assert steps(story.plan(to)) == ["minilm cpu 33->11"]
    assert steps(story.plan("HEAD~1")) == ["minilm cpu 33->22"]


@pytest.mark.parametrize(
    ("to", "cause"),
    [("1", "ambiguous: digest 121212121212"), ("9999", "'9999' is neither"), ("33", "already serves")],
)
def test_a_target_that_is_not_one_earlier_artifact_is_rejected(story, to, cause):
    story.lock("11", "12", "33")
    with pytest.raises(RollbackError, match=cause):
        story.plan(to)


def test_the_first_served_version_has_no_rollback_target(story):
    story.lock("11")
    with pytest.raises(RollbackError, match="endpoint 'search'"):
        story.plan()


def test_unreadable_version_is_not_skipped(story):
    story.lock("11")
    story.break_lock()
    story.lock("22")
    with pytest.raises(RollbackError, match="version cannot read") as caught:
        story.plan()
    assert "--to" in str(caught.value.remedy)
    assert steps(story.plan("1111")) == ["minilm cpu 22->11"]


def test_a_recorded_rollback_is_resumed_and_not_undone(story):
    story.lock("11", "22", "33")
    story.write(story.plan())
    for _ in range(2):  # not committed, and committed
        again = story.plan()
        assert steps(again) == ["minilm cpu 33->22"]
        assert (again.written.at, again.written.instead_of) == (WHO.at, "33" * 32)
        story.repository.commit("went back")


def test_a_further_rollback_skips_rolled_back_artifacts(story):
    first = story.lock("11")
    story.lock("22", "33")
    story.go_back()
    assert earlier_target(story.workspace, "search", story.history) == short_commit(first)
    further = story.plan(first)
    assert (steps(further), further.written) == (["minilm cpu 22->11"], None)


def test_a_rolled_back_and_rebuilt_artifact_can_be_restored(story):
    story.lock("11", "22")
    story.go_back()
    story.lock("22", "33")
    assert steps(story.plan()) == ["minilm cpu 33->22"]


def test_a_rolled_back_entry_is_kept_after_a_model_change(story):
    story.lock("11", "22")
    workspace, plan = story.workspace, story.plan()
    artifact = as_planned(workspace, plan, WHO).lock.record.models["minilm"]["cpu"]
    assert artifact.spec_hash != workspace.hashes["minilm"]
    assert artifact.serves_for(workspace.hashes["minilm"])
    story.write(plan)
    assert story.workspace.lock.record.models["minilm"]["cpu"].built == BUILT


def test_endpoints_that_serve_the_same_model_are_rolled_back_too(story):
    with story.project.environment_file("dev").open("a") as stream:
        stream.write("  again: {kind: ensemble, model: minilm, instance_type: ml.m7i.large}\n")
        stream.write("  fast: {kind: ensemble, model: minilm, instance_type: ml.g5.xlarge}\n")
    story.lock("11", "22")
    story.lock("99", target="sm86-25.04")
    plan = story.plan()
    assert (plan.concerned, plan.others) == (("search", "again"), ("again",))


def test_only_changed_models_of_a_multi_model_endpoint_are_rolled_back(story):
    story.serve_two_models()
    story.lock("11")
    story.lock("aa", model="other")
    story.lock("22")
    assert steps(story.plan()) == ["minilm cpu 22->11"]
    story.lock("bb", model="other")
    assert steps(story.plan()) == ["other cpu bb->aa"]
    assert steps(story.plan("1111")) == ["minilm cpu 22->11"]
    assert len(story.plan("HEAD~2").steps) == 2


def test_artifacts_for_another_target_are_restored_too(story):
    """The instance would prefer one for its own Python, which is removed."""
    story.lock("11")
    story.lock("22", target="cpu-py312")
    plan = story.plan()
    assert (steps(plan), plan.concerned) == (["minilm cpu 22->11"], ("search",))
    story.write(plan)
    assert set(story.workspace.lock.record.models["minilm"]) == {"cpu"}
    again = story.plan()
    assert (steps(again), again.written is not None) == (["minilm cpu 22->11"], True)


def test_the_event_of_a_rollback_names_what_was_rolled_back(story, cloud):
    story.serve_two_models()
    story.lock("11")
    story.lock("aa", model="other")
    story.lock("22")
    bucket = story.workspace.spec.artifact_bucket
    cloud.client("s3").create_bucket(Bucket=bucket)
    event = record_rollback(cloud, story.workspace, story.plan(), WHO)
    assert [(item.model, item.digest[:2]) for item in event.artifacts] == [("minilm", "11")]
    assert (event.endpoints, event.images) == (("search",), ())
    assert read_events(cloud, bucket) == [event]
