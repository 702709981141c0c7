"""Reject requests for what does not exist, is not built, or is not available in the account."""

from __future__ import annotations

from collections.abc import Collection

from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.project.names import environment_names, require_known
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.deploy.preflight import Preflight, PreflightError, preflight
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.local_cloud import has_registry
from tritonstack.operate.shared.session import Session


def require_built(workspace: Workspace) -> None:
    """Raise InvalidFilesError if the lock lacks an artifact that an endpoint serves."""
    if violations := unbuilt(workspace):
        raise InvalidFilesError(violations)


def check_account(session: Session, workspace: Workspace, cloud: Cloud) -> Preflight:
    """Compare an environment with its account and region; report a table unless everything is available."""
    with session.reporter.step("checking images, quotas, and zones") as step:
        # An instance gets its images only when it is deployed, as copies of those of its lock's environment.
        own_images = has_registry(workspace.spec) and workspace.instance is None
        report = preflight(cloud, workspace, own_images=own_images)
        available = [check for check in report.checks if check.status == "ok"]
        step.detail = f"{len(available)} of {len(report.checks)} available"
    if not report.complete:
        session.reporter.note(report.table())
    return report


def require_available(session: Session, workspace: Workspace, cloud: Cloud) -> None:
    """Raise PreflightError if the account or region lacks what a deployment needs."""
    report = check_account(session, workspace, cloud)
    if report.failed:
        raise PreflightError([report])


def chosen_environments(project: Project, names: Collection[str]) -> list[str]:
    """Return the permanent environments of a project with these names, all by default; reject others."""
    existing = environment_names(project)
    for name in names:
        require_known(name, existing, "unknown environment", heading="available")
    return [name for name in existing if not names or name in names]


def require_endpoint(workspace: Workspace, name: str) -> None:
    """Raise UsageError if the environment has no endpoint of this name."""
    require_known(name, workspace.spec.endpoints, f"environment {workspace.spec.name!r} has no endpoint")
