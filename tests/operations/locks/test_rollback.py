"""Rollback targets, chosen from locks in git without AWS calls."""

from pathlib import Path
from typing import Any

import pytest

from tests.git import Repository
from tests.manifests import manifest
from tests.projects import MODEL, edit, write_project
from tests.records.test_locks import BUILT
from tritonstack.base.revisions import short_commit
from tritonstack.operations.events import read_events
from tritonstack.operations.locks.restoring import record_rollback
from tritonstack.operations.locks.rollback import (
    RollbackPlan,
    as_planned,
    earlier_target,
    entries_to_write,
    plan_rollback,
)
from tritonstack.operations.locks.rollback_targets import RollbackError
from tritonstack.operations.locks.versions import lock_history
from tritonstack.project.loading import load_workspace
from tritonstack.records.lock_writing import add_to_lock, replace_entries
from tritonstack.records.locks import RolledBack

WHO = RolledBack(instead_of="", as_of="", by="ann", at="2026-11-25T08:30:00Z")


class RollbackProject:
    """A project in git whose lock changes per commit; digests start with 11, 22, and so on."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.project = write_project(root)
        self.repository = Repository(root)

    def lock(self, number: str, *, model: str = "minilm", **changes: Any) -> str:
        """Build and commit; return the commit."""
        artifact = manifest(model, digest=number * 32, spec_hash="77" * 32, **changes)
        add_to_lock(self.project.lock_file("dev"), [artifact], built=BUILT)
        return self.repository.commit(number)

    def plan(self, to: str | None = None, endpoint: str = "search") -> RollbackPlan:
        workspace, history = load_workspace(self.project, "dev"), lock_history(self.project, "dev")
        return plan_rollback(workspace, endpoint, history, to=to)

    def write(self, plan: RollbackPlan, at: str = WHO.at) -> None:
        workspace = load_workspace(self.project, "dev")
        changes = entries_to_write(workspace, plan, WHO.model_copy(update={"at": at}))
        replace_entries(self.project.lock_file("dev"), changes)

    def further(self) -> str | None:
        return earlier_target(
            load_workspace(self.project, "dev"), "search", lock_history(self.project, "dev")
        )

    def also_serve(self, *models: str) -> None:
        for model in models:
            file = self.project.model_file(model)
            file.parent.mkdir()
            file.write_text(MODEL.replace("name: minilm", f"name: {model}"))


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


def test_versions_that_changed_only_another_model_are_skipped(story):
    story.also_serve("other")
    story.lock("11")
    story.lock("22")
    story.lock("aa", model="other")
    assert steps(story.plan()) == ["minilm cpu 22->11"]


@pytest.mark.parametrize("to", ["1111", "11" * 32])
def test_digest_can_be_abbreviated(story, to):
    for number in ("11", "22", "33"):
        story.lock(number)
    assert steps(story.plan(to)) == ["minilm cpu 33->11"]


@pytest.mark.parametrize("shorten", [7, 40])
def test_commit_can_be_given(story, shorten):
    commit = story.lock("11")
    story.lock("22")
    story.lock("33")
    assert steps(story.plan(commit[:shorten])) == ["minilm cpu 33->11"]
    assert steps(story.plan("HEAD~1")) == ["minilm cpu 33->22"]


def test_ambiguous_prefix_is_rejected(story):
    story.lock("11")
    story.lock("12")
    story.lock("33")
    with pytest.raises(RollbackError, match="'1' is ambiguous: digest 121212121212"):
        story.plan("1")


def test_a_digest_that_was_never_served_is_rejected(story):
    story.lock("11")
    with pytest.raises(RollbackError, match="'9999' is neither a commit"):
        story.plan("9999")


def test_the_first_served_version_has_no_rollback_target(story):
    story.lock("11")
    with pytest.raises(RollbackError, match="endpoint 'search'"):
        story.plan()


def test_unreadable_version_is_not_skipped(story):
    story.lock("11")
    edit(story.project.lock_file("dev"), "spec_hash:", "spec_hush:")
    story.repository.commit("broken")
    edit(story.project.lock_file("dev"), "spec_hush:", "spec_hash:")
    story.lock("22")
    with pytest.raises(RollbackError, match="version cannot read") as caught:
        story.plan()
    assert "target with --to" in str(caught.value.remedy)
    assert steps(story.plan("1111")) == ["minilm cpu 22->11"]


def test_a_recorded_rollback_is_resumed_and_not_undone(story):
    for number in ("11", "22", "33"):
        story.lock(number)
    story.write(story.plan())
    for committed in (False, True):
        if committed:
            story.repository.commit("went back")
        again = story.plan()
        assert steps(again) == ["minilm cpu 33->22"]
        assert (again.written.at, again.written.instead_of) == (WHO.at, "33" * 32)


def test_a_further_rollback_skips_rolled_back_artifacts(story):
    first = story.lock("11")
    story.lock("22")
    story.lock("33")
    story.write(story.plan())
    story.repository.commit("went back")
    assert story.further() == short_commit(first)
    further = story.plan(first)
    assert (steps(further), further.written) == (["minilm cpu 22->11"], None)


def test_a_rolled_back_and_rebuilt_artifact_can_be_restored(story):
    for number in ("11", "22"):
        story.lock(number)
    story.write(story.plan())
    story.repository.commit("went back")
    story.lock("22")
    story.lock("33")
    assert steps(story.plan()) == ["minilm cpu 33->22"]


def test_a_rolled_back_entry_is_kept_after_a_model_change(story):
    story.lock("11")
    story.lock("22")
    workspace, plan = load_workspace(story.project, "dev"), story.plan()
    after = as_planned(workspace, plan, WHO)
    artifact = after.lock.record.models["minilm"]["cpu"]
    assert artifact.spec_hash != workspace.hashes["minilm"]
    assert artifact.serves_for(workspace.hashes["minilm"])
    story.write(plan)
    written = load_workspace(story.project, "dev").lock.record.models["minilm"]["cpu"]
    assert written.built == BUILT


def test_endpoints_that_serve_the_same_model_are_rolled_back_too(story):
    with story.project.environment_file("dev").open("a") as stream:
        stream.write("  again: {kind: ensemble, model: minilm, instance_type: ml.m7i.large}\n")
        stream.write("  fast: {kind: ensemble, model: minilm, instance_type: ml.g5.xlarge}\n")
    story.lock("11")
    story.lock("22")
    story.lock("99", target="sm86-25.04")
    plan = story.plan()
    assert (plan.concerned, plan.others) == (("search", "again"), ("again",))


def test_only_changed_models_of_a_multi_model_endpoint_are_rolled_back(story):
    story.also_serve("other")
    edit(
        story.project.environment_file("dev"),
        "kind: ensemble\n    model: minilm",
        "kind: multi-model\n    models: [minilm, other]",
    )
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
    assert set(load_workspace(story.project, "dev").lock.record.models["minilm"]) == {"cpu"}
    again = story.plan()
    assert (steps(again), again.written is not None) == (["minilm cpu 22->11"], True)


def test_only_completed_rollbacks_are_recorded(story, cloud):
    story.also_serve("other")
    edit(
        story.project.environment_file("dev"),
        "kind: ensemble\n    model: minilm",
        "kind: multi-model\n    models: [minilm, other]",
    )
    story.lock("11")
    story.lock("aa", model="other")
    story.lock("22")
    workspace = load_workspace(story.project, "dev")
    cloud.client("s3").create_bucket(Bucket=workspace.spec.artifact_bucket)
    event = record_rollback(cloud, workspace, story.plan(), WHO)
    assert [(item.model, item.digest[:2]) for item in event.artifacts] == [("minilm", "11")]
    assert (event.endpoints, event.images) == (("search",), ())
    assert read_events(cloud, workspace.spec.artifact_bucket) == [event]
