"""`tritonstack diff --since` with the real CDK CLI, without an account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.git import Repository
from tests.projects import edit, write_project
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact

REPOSITORY = Path(__file__).resolve().parents[3]
OLD, NEW = "a" * 64, "b" * 64
ENDPOINT = "tritonstack-dev-endpoint-search"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose first commit has no artifact and whose second one has; AWS cannot be reached."""
    target = write_project(tmp_path)
    settings = json.loads((REPOSITORY / "cdk.json").read_text())
    (target.root / "cdk.json").write_text(json.dumps(settings | {"app": "tritonstack-app"}))
    repository = Repository(target.root)
    (target.root / ".gitignore").write_text(".tritonstack/\n")
    repository.commit("endpoint")
    lock(target, OLD, accepted={"scores": "cosine >= 0.9999"})
    repository.commit("build")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    return target


def lock(project: Project, digest: str, **facts: Any) -> None:
    spec_hash = load_workspace(project, "dev").hashes["minilm"]
    artifact = LockedArtifact(digest=digest, spec_hash=spec_hash, archive_bytes=1, unpacked_bytes=1, **facts)
    write_lock(project.lock_file("dev"), Lock(models={"minilm": {"cpu": artifact}}))


def compared(project: Project, capsys: pytest.CaptureFixture[str], since: str) -> dict[str, Any]:
    status = run(["--project", str(project.root), "--json", "diff", "dev", "--since", since])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    document: dict[str, Any] = json.loads(captured.out)
    return document


def actions(document: dict[str, Any]) -> dict[str, str]:
    return {stack["stack"]: stack["action"] for stack in document["stacks"]}


def test_changes_since_a_commit_are_found_without_an_account(project, capsys):
    # The commit's artifact is older than its model: it is compared as it is locked.
    edit(project.models_dir / "minilm" / "model.yaml", "A man is eating food.", "A dog barks.")
    Repository(project.root).commit("edit the model, without a build")
    lock(project, NEW, accepted={"scores": "cosine >= 0.9"})
    document = compared(project, capsys, "HEAD")
    assert {stack for stack, action in actions(document).items() if action != "nothing"} == {ENDPOINT}
    assert actions(document)[ENDPOINT] == "roll-out"
    assert "s3://" in document["diff"] or NEW[:12] in document["diff"]
    (model,) = document["models"]
    assert (model["before"], model["after"]) == (OLD, NEW)
    assert model["changed_bounds"] == ["scores: cosine >= 0.9999 → cosine >= 0.9"]
    status = Repository(project.root).git("status", "--porcelain")
    assert status.split() == ["M", "environments/dev.lock.yaml"]


def test_an_invalid_commit_is_named(project, capsys):
    edit(project.environment_file("dev"), "instance_type:", "instance_typ:")
    commit = Repository(project.root).commit("break")
    edit(project.environment_file("dev"), "instance_typ:", "instance_type:")
    assert run(["--project", str(project.root), "diff", "dev", "--since", commit]) == 2
    error = capsys.readouterr().err
    assert f"synthesized at {commit[:8]}" in error
    assert "environments/dev.yaml:" in error
    assert "/tritonstack-" not in error


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--since", "nowhere"], 1, "git has no commit 'nowhere'"),
        (["--since", "HEAD", "--name", "pr-1"], 2, "--since and --name cannot be combined"),
    ],
)
def test_comparisons_that_do_not_exist_are_rejected(project, capsys, arguments, status, text):
    assert run(["--project", str(project.root), "diff", "dev", *arguments]) == status
    assert text in capsys.readouterr().err
