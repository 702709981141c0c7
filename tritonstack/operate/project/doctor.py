"""Check what a project needs, and say how to get what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from tritonstack.base.extras import install_command
from tritonstack.base.paths import Project
from tritonstack.base.results import public
from tritonstack.operate.project.setup import NODE_MAJORS, node_major
from tritonstack.operate.shared.session import Session
from tritonstack.operate.synth.cdk import SETUP, cdk_program
from tritonstack.triton.errors import TritonNotFoundError
from tritonstack.triton.installation import find_installation

NOT_FOUND = "not found"
_EXTRAS = {
    "cdk": ("aws_cdk", ""),
    "build": ("isal", "builds models on this machine"),
    "local": ("tritonstack_local", "runs the local cloud"),
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
