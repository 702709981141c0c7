"""What a pull request needs before a merge: a check, or a commit status.

GitHub does not count the check runs of a dispatched workflow for a pull request, and pull requests opened by
workflows get no others until someone approves them.
"""

import json
import re
from typing import Any

import pytest

from tests.delivery.github import workflows
from tests.delivery.github.conftest import PROPOSAL, SLUG, commit, git
from tests.delivery.github.workflows import ROOT, WORKFLOWS, Event, Runner, read_workflow

REQUIRED = "checks"


def statuses(runner: Runner) -> list[dict[str, Any]]:
    file = runner.folder / "github.json"
    posted: list[dict[str, Any]] = json.loads(file.read_text()).get("statuses", []) if file.exists() else []
    return posted


@pytest.mark.parametrize(("code", "state"), [("0", "success"), ("2", "failure")])
def test_a_dispatched_run_posts_the_result_of_its_checks(runner, code, state):
    sha = commit(runner.remote, "A lock")
    runner.variables = {"ENDS_WITH": code}
    results = runner.run("pull-request.yml", Event("workflow_dispatch", PROPOSAL, {}))
    assert results["checks"] == state
    assert results["status"] == "success", runner.ran[-1].output
    assert statuses(runner) == [
        {
            "sha": sha,
            "context": REQUIRED,
            "state": state,
            "description": statuses(runner)[0]["description"],
            "target_url": f"https://github.com/{SLUG}/actions/runs/42",
        }
    ]


@pytest.mark.parametrize("cancelled", [True, False], ids=["the run", "the job"])
def test_cancelled_checks_do_not_succeed(runner, cancelled):
    commit(runner.remote, "A lock")
    runner.ends, runner.cancelled = {"checks": "cancelled"}, cancelled
    runner.run("pull-request.yml", Event("workflow_dispatch", PROPOSAL, {}))
    assert [status["state"] for status in statuses(runner)] == ["failure"]


def test_the_status_is_posted_on_the_checked_commit(runner):
    """Not for a commit that was pushed to the branch meanwhile."""
    checked = commit(runner.remote, "A lock")
    event = Event("workflow_dispatch", PROPOSAL, {}, sha=checked)
    later = commit(runner.remote, "Another")
    runner.run("pull-request.yml", event)
    (looked,) = [ran.output.strip() for ran in runner.ran if ran.command == "tritonstack validate"]
    assert looked == checked != later
    assert [status["sha"] for status in statuses(runner)] == [checked]


def pull_request(runner: Runner, whose: str) -> Event:
    git(runner.remote, "update-ref", "refs/pull/7/merge", commit(runner.remote, "A change"))
    head = {"repo": {"full_name": whose}}
    return Event(
        "pull_request", "refs/pull/7/merge", {"action": "opened", "pull_request": {"number": 7, "head": head}}
    )


def test_a_fork_cannot_set_a_commit_status(runner, tmp_path, monkeypatch):
    text = (WORKFLOWS / "pull-request.yml").read_text()
    own, count = re.subn(r"\$\{\{ always\(\) && .*? \}\}", "${{ always() }}", text)
    assert count == 1
    (tmp_path / "pull-request.yml").write_text(own)
    monkeypatch.setattr(workflows, "WORKFLOWS", tmp_path)
    results = runner.run("pull-request.yml", pull_request(runner, "somebody/tritonstack"))
    assert results["status"] == "failure"
    assert "not accessible" in runner.ran[-2].output + runner.ran[-1].output
    assert statuses(runner) == []


def test_required_check_is_reported_by_both_kinds_of_runs():
    """GitHub names a check run after its job."""
    jobs = read_workflow(WORKFLOWS / "pull-request.yml")["jobs"]
    assert "name" not in jobs[REQUIRED]
    assert not {"if", "needs", "strategy"} & set(
        jobs[REQUIRED]
    )  # a job left out counts as one that went well
    (step,) = jobs["status"]["steps"]
    assert f"-f context={REQUIRED} " in step["run"]
    assert jobs["status"]["needs"] == REQUIRED
    assert f"the check `{REQUIRED}`" in (ROOT / "docs" / "delivery.md").read_text()
