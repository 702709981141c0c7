"""Check that the extra a command needs is installed."""

from __future__ import annotations

from importlib.util import find_spec

from tritonstack.base.error_kinds import MissingPackageError
from tritonstack.base.extras import install_command


def require(module: str, *, feature: str) -> None:
    """Raise UsageError if a module is not installed, before anything starts."""
    if find_spec(module) is None:
        raise MissingPackageError(
            f"{feature}: {module} is not installed", remedy=f"run `{install_command(module)}`"
        )
