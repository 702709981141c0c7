"""The shell of a build: each command keeps the folder and variables of the previous one."""

from __future__ import annotations

import secrets
from pathlib import Path

from tritonstack_local.codebuild.machines.base import Hear, Machine
from tritonstack_local.codebuild.runs.buildspec import Buildspec

# As in CodeBuild, every command is a separate script. Its folder and variables are saved in two files.
_SCRIPT = """\
cd "$(cat '{kept}/folder')" || exit
. '{kept}/variables'
export CODEBUILD_BUILD_SUCCEEDING={succeeding}
set -a
{command}
CODEBUILD_LAST_EXIT=$?
set +a
export -p > '{kept}/variables'
pwd > '{kept}/folder'
exit $CODEBUILD_LAST_EXIT
"""
_SHELLS = {"sh": "/bin/sh", "bash": "/bin/bash"}


class BuildShell:
    """Runs a build's commands on its machine."""

    def __init__(self, machine: Machine, folder: Path, spec: Buildspec, source: Path, *, hear: Hear) -> None:
        self._machine = machine
        self._hear = hear
        self._shell = _SHELLS.get(spec.env.shell, spec.env.shell)
        self._kept = folder / "tmp" / "shell"
        self._kept.mkdir(mode=0o777)
        where = {
            "HOME": folder / "home",
            "TMPDIR": folder / "tmp",
            "CODEBUILD_SRC_DIR": source,
            **{
                f"CODEBUILD_SRC_DIR_{other.name.removeprefix('sec_')}": other
                for other in source.parent.glob("sec_*")
            },
        }
        exports = [f"export {name}='{machine.inside(path)}'" for name, path in where.items()]
        for name, text in (("folder", machine.inside(source)), ("variables", "\n".join(exports))):
            kept = self._kept / name
            kept.write_text(f"{text}\n")
            kept.chmod(0o666)  # commands may run as different users

    def run(self, command: str, *, user: str | None, succeeding: bool) -> int:
        """Run a command, log its output, and return its exit status."""
        return self._run(command, user=user, succeeding=succeeding, hear=self._hear)

    def value(self, text: str) -> str:
        """Expand variables and commands in a text, as in double quotes."""
        said: list[str] = []
        self._run(f'printf "%s" "{text}"', user=None, succeeding=True, hear=said.append)
        return "\n".join(said)

    def _run(self, command: str, *, user: str | None, succeeding: bool, hear: Hear) -> int:
        kept = self._machine.inside(self._kept)
        text = _SCRIPT.format(kept=kept, succeeding=int(succeeding), command=command)
        # A background script is still read while the next one is written.
        script = self._kept / f"{secrets.token_hex(4)}.sh"
        script.write_text(text)
        return self._machine.run([self._shell, self._machine.inside(script)], user=user, hear=hear)
