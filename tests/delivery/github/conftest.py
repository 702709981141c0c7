"""A repository on GitHub with a proposed change, and the runner of its workflows."""

import subprocess
from pathlib import Path

import pytest

from tests.delivery.github.workflows import Runner

SLUG = "example/tritonstack"
PROPOSAL = "refs/heads/promote/prod"


def git(remote: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(remote), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(remote: Path, message: str) -> str:
    """Return one more commit on the proposal's branch."""
    tree = git(remote, "hash-object", "-t", "tree", "-w", "--stdin")
    sha = git(remote, "commit-tree", tree, "-m", message)
    git(remote, "update-ref", PROPOSAL, sha)
    return sha


def add_command(work: Path) -> None:
    """Add a command line that prints what it checks, and behaves as the test wants."""
    program = work / ".venv" / "bin" / "tritonstack"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text('#!/bin/sh\ngit rev-parse HEAD\nexit "$ENDS_WITH"\n')
    program.chmod(0o755)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(remote)], check=True)
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    return Runner(
        remote, jobs, SLUG, delivery_stacks={}, variables={"ENDS_WITH": "0"}, prepare_checkout=add_command
    )
