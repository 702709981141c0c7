"""Check what a project needs, and say how to get what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from tritonstack.base.extras import install_command
from tritonstack.base.paths import Project
from tritonstack.operations.deploying.cdk import cdk_program
from tritonstack.runtime.errors import TritonNotFoundError
from tritonstack.runtime.installation import find_installation
from tritonstack.workflows.installation.setup import NODE_MAJORS, node_major

SETUP = "run `tritonstack setup`"
_MODULES = {"cdk": "aws_cdk", "build": "isal", "local": "tritonstack_local"}
"""One module per extra."""


@dataclass(frozen=True)
class InstallationCheck:
    """One requirement."""

    name: str
    detail: str
    remedy: str | None = None
    """How to get it; None if it is there."""

    @property
    def installed(self) -> bool:
        """True if it is there."""
        return self.remedy is None


@dataclass(frozen=True)
class Installation:
    """What is installed for a project, and what is missing."""

    checks: tuple[InstallationCheck, ...]

    @property
    def complete(self) -> bool:
        """True if nothing is missing."""
        return all(check.installed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the checks as JSON data."""
        return {"ok": self.complete, "checks": [asdict(check) for check in self.checks]}


def check_project(project: Project) -> Installation:
    """Check every requirement of a project."""
    return Installation(tuple(_checks(project)))


def _checks(project: Project) -> Iterator[InstallationCheck]:
    for extra, module in _MODULES.items():
        found = find_spec(module) is not None
        detail = "installed" if found else f"{module} is missing"
        yield InstallationCheck(
            f"extra {extra}", detail, None if found else f"run `{install_command(module)}`"
        )
    major = node_major()
    detail = "missing" if major is None else f"version {major}"
    yield InstallationCheck(
        "Node", detail, None if major in NODE_MAJORS else f"{SETUP}; the CDK needs Node 22 or 24"
    )
    cdk = cdk_program(project.root)
    yield InstallationCheck("CDK CLI", cdk or "missing", None if cdk else SETUP)
    yield _server(project)
    git = shutil.which("git")
    yield InstallationCheck("git", git or "missing", None if git else "install git")


def _server(project: Project) -> InstallationCheck:
    try:
        found = find_installation(home=project.server_dir)
    except TritonNotFoundError as error:
        return InstallationCheck("Triton server", error.message, SETUP)
    return InstallationCheck("Triton server", f"{found.version} ({found.release})")
