"""`tritonstack upgrade`: pin the running version in a repository."""

from __future__ import annotations

import importlib.metadata

import typer

from tritonstack.cli.context import Context
from tritonstack.project.scaffold.repository import pin_this_version


def upgrade(context: typer.Context) -> None:
    """Pin the running version of tritonstack in this repository.

    Run it after `pip install 'tritonstack[cli]==VERSION'`. It changes the version in requirements.txt and
    rewrites constraints.txt with the packages that the version was tested with; no other file changes.

    Example: tritonstack upgrade
    """
    state: Context = context.obj
    changed = pin_this_version(state.project)
    version = importlib.metadata.version("tritonstack")
    next_steps = "next: `pip install -r requirements.txt`, `tritonstack setup`, `tritonstack validate`"
    text = f"changed {', '.join(changed)} to {version}; {next_steps}" if changed else f"{version}: up to date"
    state.output.result({"version": version, "files": changed}, text=text)
