"""What a machine may lack: a command line for accounts of AWS installs without models' libraries and moto."""

from __future__ import annotations

from importlib.util import find_spec

from tritonstack.base.errors import UsageError

REMEDY = "`make setup` installs it, with all of requirements-local.txt"


def require(module: str, *, what: str) -> None:
    """Refuse what this installation cannot do, before anything is started."""
    if find_spec(module) is None:
        raise UsageError(f"{what} is not installed here: there is no {module}", remedy=REMEDY)
