"""Git projects, for tests of history."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Repository:
    """A test's own repository; its commits are an hour apart."""

    root: Path
    hours: int = 0

    def __post_init__(self) -> None:
        self.git("init", "--initial-branch", "main")

    def git(self, *arguments: str) -> str:
        """Return git's output."""
        moment = f"2026-11-22T{self.hours:02}:00:00Z"
        identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false")
        ended = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.root,
            env={"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment, "PATH": os.environ["PATH"]},
            check=True,
            capture_output=True,
            text=True,
        )
        return ended.stdout.strip()

    def commit(self, message: str) -> str:
        """Commit all changes; return the commit's id."""
        self.hours += 1
        self.git("add", "--all")
        self.git("commit", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")
