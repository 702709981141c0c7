"""Run the CDK CLI as a child process."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tritonstack.base.error_kinds import MissingProgramError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import read_json
from tritonstack.base.paths import Project, shipped

SETUP = "run `tritonstack setup`"
_PACKAGE = "aws-cdk"
_VERSION_TIMEOUT_S = 30
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
    """The CDK CLI ended with an error. The end of its output is in the message, with CloudFormation's reason.
    Fix it, and rerun; the deploy resumes.
    """

    code = "TS505"
    title = "CDK command failed"


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
    """Return the CDK CLI of the pinned version: the project's, or the one on PATH.

    `context` is `Workspace.context`, for environments that may be template instances.
    """
    program = cdk_program(project_root)
    if program is None:
        raise MissingProgramError("the CDK CLI is not installed", remedy=SETUP)
    if not program.is_pinned:
        raise MissingProgramError(f"the CDK CLI is {program.describe()}", remedy=SETUP)
    # Put this environment's bin folder first on PATH, so the app (tritonstack-app or app.py) runs in it.
    path = f"{Path(sys.executable).parent}:{variables.get('PATH', '')}"
    app_context = {"env": environment_name, **context}
    return CdkCli(Path(program.program), project_root, app_context, {**variables, **_QUIET, "PATH": path})


@dataclass(frozen=True)
class CdkProgram:
    """A CDK CLI on this machine."""

    program: str
    version: str | None
    """None if it cannot be read."""

    @property
    def is_pinned(self) -> bool:
        """Return whether it has the version that this release was tested with."""
        return self.version == pinned_cdk_version()

    def describe(self) -> str:
        """Return the version and the path, with the expected version if that is another one."""
        expected = "" if self.is_pinned else f"; expected version {pinned_cdk_version()}"
        return f"version {self.version or 'unknown'} ({self.program}){expected}"


def pinned_cdk_version() -> str:
    """Return the version of the CDK CLI that this release was tested with."""
    packages = read_json(shipped("package-lock.json"))["packages"]
    return str(packages[f"node_modules/{_PACKAGE}"]["version"])


def cdk_program(project_root: Path) -> CdkProgram | None:
    """Return the project's CDK CLI: npm's, that of `tritonstack setup`, or the one on PATH.

    The first one of the pinned version wins; without any, the first one.
    """
    folders = (project_root, Project(project_root).cdk_dir)
    programs = [str(folder / "node_modules" / ".bin" / "cdk") for folder in folders]
    candidates = [*filter(os.path.exists, programs), *filter(None, [shutil.which("cdk")])]
    first = None
    for program in candidates:
        candidate = CdkProgram(program, _version(Path(program), project_root))
        if candidate.is_pinned:
            return candidate
        first = first or candidate
    return first


def _version(program: Path, folder: Path) -> str | None:
    """Read the version from the package of a program, or ask the program."""
    try:
        package = program.resolve().parents[1] / "package.json"
        facts = read_json(package)
        if facts["name"] == _PACKAGE:
            return str(facts["version"])
    except (OSError, LookupError, ValueError, TypeError):
        pass  # a script that starts the CDK CLI of another folder
    try:
        result = subprocess.run(
            [program, "--version"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = result.stdout.split()  # "2.1148.1 (build 1a2b3c4)"
    return words[0] if words and result.returncode == 0 else None


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
