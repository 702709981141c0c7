"""Which environments a change affects, and what `tritonstack delivery` prints for workflows."""

import json
import subprocess
from pathlib import Path

import pytest

from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.files.environment.delivery import require_delivery
from tritonstack.operate.project.delivery import affected, changed_since


@pytest.fixture
def committed(roads: Project, tmp_path: Path) -> Project:
    """The sample project in git, with one commit."""
    folder = tmp_path / "project"
    subprocess.run(["cp", "-r", str(roads.root), str(folder)], check=True)
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "All"]):
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(folder), *who, *command], check=True)
    return Project(folder)


def affected_since(project: Project, since: str | None) -> list[str]:

    return affected(require_delivery(project).record, changed_since(project, since))


def test_first_environment_gets_every_change(committed):
    assert affected_since(committed, "HEAD") == ["dev"]


@pytest.mark.parametrize("file", ["prod.lock.yaml", "prod.yaml"])
def test_another_waits_for_its_own_lock_or_file(committed, file):
    with (committed.environments_dir / file).open("a") as text:
        text.write("# changed\n")
    assert affected_since(committed, "HEAD") == ["dev", "prod"]


def test_environment_without_a_lock_is_affected_by_its_first_lock(committed):
    lock = committed.lock_file("staging")
    text = lock.read_text()
    lock.unlink()
    assert affected_since(committed, "HEAD") == ["dev", "staging"]
    lock.write_text(text)
    assert affected_since(committed, "HEAD") == ["dev"]


@pytest.mark.parametrize("since", [None, "", "0" * 40, "f" * 40])
def test_all_environments_are_affected_without_a_known_previous_commit(committed, since):
    assert affected_since(committed, since) == ["dev", "staging", "prod"]


def test_workflow_values_are_json(committed, capsys):
    assert run(["--project", str(committed.root), "delivery", "--since", "HEAD", "--as-outputs"]) == 0
    values = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    outputs = {name: json.loads(value) for name, value in values.items()}
    assert outputs["environments"] == ["dev", "staging", "prod"]
    assert outputs["affected"] == ["dev"]
    prod = outputs["stages"]["prod"]
    assert (prod["account"], prod["region"], prod["approval"]) == ("222222222222", "eu-west-1", True)
    assert prod["roles"] == {
        duty.replace("-", "_"): f"arn:aws:iam::222222222222:role/tritonstack-delivery-prod-{duty}"
        for duty in ("plan", "deploy", "promote", "clean-up")
    }
    assert "promote" not in outputs["stages"]["dev"]["roles"]
    previews = outputs["previews"]
    assert (previews["template"], previews["ttl"], previews["name_prefix"]) == ("preview", "4h", "pr")
    assert previews["roles"]["preview_execution"].endswith("role/tritonstack-delivery-dev-preview-execution")
