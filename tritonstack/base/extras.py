"""Which extra of the distribution installs a module, for messages. Imports nothing that an extra installs."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tritonstack.base.error_kinds import MissingPackageError
from tritonstack.base.paths import in_source_tree

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EXTRA_OF_MODULE = {
    **dict.fromkeys(("docker", "jinja2", "packaging", "pydantic", "rich", "typer", "yaml"), "cli"),
    **dict.fromkeys(("aws_cdk", "constructs", "jsii"), "cdk"),
    **dict.fromkeys(("moto", "tritonstack_local"), "local"),
    "tritonstack_sizing": "sizing",
}
"""Modules that `build` installs are all others."""
USAGE_EXIT_CODE = 2
INDEX_REMEDY = "check the network, the proxy, and the index in `pip config list`, and retry"
_LAST_ATTEMPT = re.compile(r"Retry\(total=0, .*? after connection broken by '(.*)': ")
_NO_RETRIES_LEFT = re.compile(r"Max retries exceeded with url: \S+ \(Caused by (.*)\)")
_NOT_CONNECTED = "Failed to establish a new connection: "


def install_command(module: str) -> str:
    """Return the command that installs a module: its extra, or `make setup` in the source tree."""
    if in_source_tree():
        return "make setup"
    extra = EXTRA_OF_MODULE.get(module.partition(".")[0], "build")
    return f"pip install 'tritonstack[{extra}]'"


def pip_command() -> list[str]:
    """Return the start of a pip command; raise UsageError if this Python environment has no pip."""
    if find_spec("pip") is None:
        command = "uv pip install pip" if shutil.which("uv") else f"{sys.executable} -m ensurepip"
        raise MissingPackageError(
            f"pip is not installed in {sys.prefix}",
            remedy=f"run `{command}`, and rerun this command",
        )
    return [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def unreachable_index(log: str) -> str | None:
    """Return why pip could not reach a package index; None if its log names no failed connection.

    Afterwards pip reports only that no version matches.
    """
    broken = _LAST_ATTEMPT.findall(log) or _NO_RETRIES_LEFT.findall(log)
    if not broken:
        return None
    _, wrapped, reason = str(broken[-1]).rpartition(_NOT_CONNECTED)
    return reason.rstrip("'\")") if wrapped else reason


def missing_extra(error: ModuleNotFoundError) -> int:
    """Report a module that is not installed; return the exit code. Any other error raises again."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRA_OF_MODULE:
        raise error
    print(
        f"error[TS615]: {module} is not installed\n  help: run `{install_command(module)}`", file=sys.stderr
    )
    return USAGE_EXIT_CODE


def require(module: str, *, feature: str) -> None:
    """Raise UsageError if a module is not installed, before anything starts."""
    if find_spec(module) is None:
        raise MissingPackageError(
            f"{feature}: {module} is not installed", remedy=f"run `{install_command(module)}`"
        )


def wing_entry(group: str, name: str, *, package: str) -> EntryPoint:
    """Return the entry point of an optional package; raise UsageError if it is not installed."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - most commands read no metadata

    # The module, too: another distribution may name the same entry.
    entries = entry_points(group=group, name=name)
    entry = next((entry for entry in entries if entry.module.partition(".")[0] == package), None)
    if entry is None:
        distribution = package.replace("_", "-")
        raise MissingPackageError(
            f"{name}: {distribution} is not installed", remedy=f"run `{install_command(package)}`"
        )
    return entry
