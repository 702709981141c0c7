"""GitHub's runners refuse user namespaces until a step allows them, as do the stand-ins sudo and unshare."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.delivery.github import workflows
from tests.delivery.github.conftest import PROPOSAL, commit
from tests.delivery.github.workflows import ROOT, WORKFLOWS, Event, Runner, read_workflow

ACTIONS = {
    "this repository": ROOT / ".github" / "actions",
    "init": ROOT / "tritonstack" / "project" / "scaffold" / "files" / "github" / "actions",
}
CHECK = "./.github/actions/check"
ALLOW = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
PROBE = "unshare --user --map-root-user --mount true"


@pytest.fixture(params=ACTIONS)
def check(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This repository's actions, with the action `check` of itself or of `tritonstack init`."""
    actions = tmp_path / "root" / ".github" / "actions"
    shutil.copytree(ACTIONS["this repository"], actions)
    shutil.copy(ACTIONS[request.param] / "check" / "action.yml", actions / "check")
    monkeypatch.setattr(workflows, "ROOT", tmp_path / "root")
    return actions / "check" / "action.yml"


def commands(runner: Runner) -> list[str]:
    return [step.command for step in runner.ran]


def run_checks(runner: Runner) -> str:
    commit(runner.remote, "A change")
    return runner.run("pull-request.yml", Event("workflow_dispatch", PROPOSAL, {}))["checks"]


@pytest.mark.usefixtures("check")
def test_the_checks_allow_namespaces_before_anything_needs_them(runner):
    assert run_checks(runner) == "success"
    steps = commands(runner)
    assert steps[steps.index(ALLOW) + 1] == PROBE
    assert [steps.count(ALLOW), steps.count(PROBE)] == [1, 1]


def test_a_runner_that_still_refuses_namespaces_fails_once_and_early(runner, check):
    action: dict[str, Any] = yaml.safe_load(check.read_text())
    action["runs"]["steps"] = [step for step in action["runs"]["steps"] if step["run"] != ALLOW]
    check.write_text(yaml.safe_dump(action))
    assert run_checks(runner) == "failure"
    (failed_step,) = [step for step in runner.ran if step.exit_code]
    assert failed_step.command == PROBE
    assert "/proc/self/uid_map" in failed_step.output
    assert "make setup-dev" not in commands(runner)


TRITON_COMMANDS = ("make test", "make test-soak", "tritonstack build")
TRITON_STEPS = [
    pytest.param(job["steps"], index, id=f"{file.stem}/{name}")
    for file in sorted(WORKFLOWS.glob("*.yml"))
    for name, job in read_workflow(file)["jobs"].items()
    for index, step in enumerate(job.get("steps", []))
    if step.get("run", "").startswith(TRITON_COMMANDS)
]


@pytest.mark.parametrize(("steps", "index"), TRITON_STEPS)
def test_a_job_allows_namespaces_before_it_starts_triton(steps, index):
    assert any(step.get("run") == ALLOW or step.get("uses") == CHECK for step in steps[:index])
