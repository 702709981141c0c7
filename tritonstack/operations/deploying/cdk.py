"""Run the CDK CLI as a child process."""

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
from tritonstack.base.paths import Project

_INTERRUPT_GRACE_S = 20
_LINES_SHOWN = 60
_SIGNS_OF_ANOTHER = (
    "ChangeSetNotFoundException",
    "InvalidChangeSetStatusException",
    "_IN_PROGRESS state and can not be updated",
)
"""CloudFormation's errors when two deployments change the same stack or change set."""
_AFTER_ANOTHER = (
    "another deployment of these stacks may be running; rerun when it has ended: the command waits for "
    "operations in progress"
)
_SIGN_OF_BOUNDARY = "iam:CreatePolicy"
"""The actions that IAM denies because only an administrator changes permissions boundaries."""
_BY_ADMINISTRATOR = (
    "the permissions boundary of the environment's roles is new or has changed; only an administrator "
    "can change it: run `cdk bootstrap` with the execution policy AdministratorAccess, deploy the foundation "
    "stack, and run `cdk bootstrap` with the previous policies again"
)
_QUIET = {
    "NODE_NO_WARNINGS": "1",  # about future Node versions
    "NO_COLOR": "1",
}


class CdkFailedError(TritonstackError):
    """The CDK CLI failed; the message holds its last output lines."""

    code = "TS505"


class InterruptedDeployError(TritonstackError):
    """A user interrupted a command that may continue in the cloud."""

    code = "TS906"


@dataclass(frozen=True)
class CdkCli:
    """The CDK CLI of a project, for one environment."""

    executable: Path
    project_root: Path
    context: Mapping[str, str]
    """CDK context: `env`, and the parameters of a template's instance."""
    variables: Mapping[str, str]

    def run(
        self, command: str, *arguments: str, on_line: Callable[[str], None], assembly: Path | None = None
    ) -> None:
        """Run a command and pass its output lines to `on_line`.

        `assembly` is the output of `cdk synth`, which saves another synthesis.
        """
        context = [argument for key, value in self.context.items() for argument in ("-c", f"{key}={value}")]
        argv = [
            str(self.executable),
            command,
            *arguments,
            *(["--app", str(assembly)] if assembly else context),
        ]
        lines: list[str] = []

        def record(line: str) -> None:
            lines.append(line)
            on_line(line)

        status = _run(argv, cwd=self.project_root, variables=self.variables, on_line=record)
        if status != 0:
            manual_command = shlex.join(["cdk", command, *arguments, *context])
            remedy = _remedy(lines) or f"to run it manually: {manual_command}"
            raise CdkFailedError(
                f"`cdk {command}` failed with exit code {status}:\n" + "\n".join(lines[-_LINES_SHOWN:]),
                remedy=remedy,
            )


def _remedy(lines: Sequence[str]) -> str | None:
    """Return the remedy of a known failure."""
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
    """Return the project's pinned CDK CLI, or the one on PATH.

    `context` is `Workspace.context`, for environments that may be template instances.
    """
    found = cdk_program(project_root)
    if found is None:
        raise TritonstackError("the CDK CLI is not installed", remedy="run `tritonstack setup`", code="TS606")
    # Put this environment's bin folder first on PATH, so the app (tritonstack-app or app.py) runs in it.
    path = f"{Path(sys.executable).parent}:{variables.get('PATH', '')}"
    app_context = {"env": environment_name, **context}
    return CdkCli(Path(found), project_root, app_context, {**variables, **_QUIET, "PATH": path})


def cdk_program(project_root: Path) -> str | None:
    """Return the CDK CLI of the project: npm's, that of `tritonstack setup`, or the one on PATH."""
    for folder in (project_root, Project(project_root).cdk_dir):
        pinned = folder / "node_modules" / ".bin" / "cdk"
        if pinned.exists():
            return str(pinned)
    return shutil.which("cdk")


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
    """Interrupt the child process, and kill it if it does not end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=_INTERRUPT_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
