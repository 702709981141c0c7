"""Reject requests for endpoints that do not exist or models that are not built."""

from __future__ import annotations

from tritonstack.base.documents import closest
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.workspace import Workspace


def require_built(workspace: Workspace) -> None:
    """Raise InvalidFilesError if the lock lacks an artifact that an endpoint serves."""
    if violations := unbuilt(workspace):
        raise InvalidFilesError(violations)


def require_endpoint(workspace: Workspace, name: str) -> None:
    """Raise UsageError if the environment has no endpoint of this name."""
    known = list(workspace.spec.endpoints)
    if name not in known:
        suggestion = closest(name, known)
        raise UsageError(
            f"environment {workspace.spec.name!r} has no endpoint {name!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"it has: {', '.join(known) or 'none'}",
            code="TS903",
        )
