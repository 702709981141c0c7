"""A real session in a new repository, on a local cloud: build, deploy, invoke, change, and destroy."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.pictures.terminal import Recording, record
from tritonstack.base.paths import Project

NAME = "shop"
_GIT = "[user]\nname = Ada\nemail = ada@example.com\n[init]\ndefaultBranch = main\n"


class SessionError(Exception):
    """A command of the session failed, or a picture shows a path of this machine."""


@dataclass
class RecordedSession:
    """A person's terminal in a folder of its own."""

    source: Project
    """The checkout whose Triton server and CDK CLI are used."""
    home: Path
    columns: int = 100
    recordings: list[Recording] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Return the repository of the session."""
        return self.home / NAME

    def prepare(self) -> None:
        """Write the person's settings."""
        (self.home / ".gitconfig").write_text(_GIT)

    def furnish(self) -> None:
        """Give the new repository what `tritonstack setup` installs."""
        (self.folder / "node_modules").symlink_to(self.source.root / "node_modules")
        (self.folder / ".tritonstack").mkdir()
        (self.folder / ".tritonstack/server").symlink_to(self.source.server_dir)

    def type(self, command: str, *, columns: int = 0, folder: Path | None = None) -> Recording:
        """Run a command as a person sees it, and keep the recording."""
        recording = record(
            command,
            folder=folder or self.folder,
            variables=self._variables(),
            columns=columns or self.columns,
        )
        if recording.code != 0:
            raise SessionError(f"`{command}` exited with {recording.code}:\n{recording.text}")
        # The session's folder is shown as a person's.
        self.recordings.append(replace(recording, text=recording.text.replace(str(self.home), "~")))
        return self.recordings[-1]

    def run(self, command: str) -> None:
        """Run a command that no picture shows."""
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._variables(),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if ended.returncode != 0:
            raise SessionError(f"`{command}` exited with {ended.returncode}:\n{ended.stdout}")

    def _variables(self) -> dict[str, str]:
        dropped = ("AWS_", "CDK_", "COLUMNS", "GIT_", "NO_COLOR", "PYTHON", "TRITONSTACK_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        programs = (f"{sys.prefix}/bin", f"{self.source.root}/node_modules/.bin", kept.get("PATH", ""))
        return {**kept, "HOME": str(self.home), "PATH": os.pathsep.join(programs), "LANG": "C.UTF-8"}
