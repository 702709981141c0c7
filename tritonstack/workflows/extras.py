"""Check that the extra a command needs is installed."""

from __future__ import annotations

from importlib.util import find_spec

from tritonstack.base.errors import UsageError
from tritonstack.base.extras import install_command


def require(module: str, *, feature: str) -> None:
    """Raise UsageError if a module is not installed, before anything starts."""
    if find_spec(module) is None:
        raise UsageError(
            f"{feature}: {module} is not installed", remedy=f"run `{install_command(module)}`", code="TS615"
        )
