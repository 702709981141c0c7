"""The CDK command line as a child process."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tritonstack.base.errors import TritonstackError

_INTERRUPT_GRACE_S = 20
_LINES_SHOWN = 60
_SIGNS_OF_ANOTHER = (
    "ChangeSetNotFoundException",
    "InvalidChangeSetStatusException",
    "_IN_PROGRESS state and can not be updated",
)
"""What CloudFormation says when two deploys take each other's change sets, or one stack from each other."""
_AFTER_ANOTHER = (
    "it looks as if another deploy of the same stacks was under way; when that has ended, run this again: it "
    "waits for what CloudFormation is still doing"
)
_SIGN_OF_BOUNDARY = "iam:CreatePolicy"
"""The action, or CreatePolicyVersion, that IAM denies where only an administrator changes a boundary."""
_BY_ADMINISTRATOR = (
    "the permissions boundary of the environment's roles is new or has changed, and only an "
    "administrator may change it; see 'The permissions boundary' in docs/delivery.md"
)
_QUIET = {
    "NODE_NO_WARNINGS": "1",  # about Node versions of years to come
    "NO_COLOR": "1",
}


class CdkFailedError(TritonstackError):
    """The CDK command line ended with an error; the message holds its last words."""


class InterruptedDeployError(TritonstackError):
    """A person stopped a command that a cloud may still be carrying out."""


@dataclass(frozen=True)
class CdkCli:
    """The CDK command line of a project, for one environment."""

    executable: Path
    project_root: Path
    context: Mapping[str, str]
    """What a synth is told: `env`, and for an instance of a template what it is asked for with."""
    variables: Mapping[str, str]

    def run(
        self, command: str, *arguments: str, on_line: Callable[[str], None], assembly: Path | None = None
    ) -> None:
        """Run one command to its end, passing each line it prints to `on_line`.

        `assembly` is what `cdk synth` wrote; with it the command need not synthesise again.
        """
        context = [word for key, value in self.context.items() for word in ("-c", f"{key}={value}")]
        argv = [
            str(self.executable),
            command,
            *arguments,
            *(["--app", str(assembly)] if assembly else context),
        ]
        said: list[str] = []

        def hear(line: str) -> None:
            said.append(line)
            on_line(line)

        status = _run(argv, cwd=self.project_root, variables=self.variables, on_line=hear)
        if status != 0:
            by_hand = shlex.join(["npx", "cdk", command, *arguments, *context])
            remedy = _remedy(said) or f"to run it by hand: {by_hand}"
            raise CdkFailedError(
                f"`cdk {command}` failed with exit code {status}:\n" + "\n".join(said[-_LINES_SHOWN:]),
                remedy=remedy,
            )


def _remedy(lines: Sequence[str]) -> str | None:
    """What to do about a failure that is known by its message."""
    if any(_SIGN_OF_BOUNDARY in line for line in lines):
        return _BY_ADMINISTRATOR
    if any(sign in line for line in lines for sign in _SIGNS_OF_ANOTHER):
        return _AFTER_ANOTHER
    return None


def find_cdk(
    project_root: Path,
    *,
    environment_name: str,
    variables: Mapping[str, str],
    context: Mapping[str, str] = MappingProxyType({}),
) -> CdkCli:
    """The CDK command line that the project pins, or the one on PATH.

    `context` is what `Workspace.context` says, for those that may be instances of a template.
    """
    pinned = project_root / "node_modules" / ".bin" / "cdk"
    found = str(pinned) if pinned.exists() else shutil.which("cdk")
    if found is None:
        raise TritonstackError(
            "the CDK command line is not installed", remedy="run `make setup`, or `npm ci` in the project"
        )
    # The app (tritonstack-app, or python3 app.py) is the first on PATH: the one of this environment.
    path = f"{Path(sys.executable).parent}:{variables.get('PATH', '')}"
    told = {"env": environment_name, **context}
    return CdkCli(Path(found), project_root, told, {**variables, **_QUIET, "PATH": path})


def _run(
    argv: Sequence[str], *, cwd: Path, variables: Mapping[str, str], on_line: Callable[[str], None]
) -> int:
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        for line in process.stdout:
            on_line(line.rstrip())
        return process.wait()
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[str]) -> None:
    """Let the child finish as after Ctrl-C, and insist if it does not."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=_INTERRUPT_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
