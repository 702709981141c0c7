"""`tritonstack upgrade`: pin the running version in a repository."""

from __future__ import annotations

import typer

from tritonstack.cli.context import Context
from tritonstack.workflows.project.repository import pin_version


def upgrade(context: typer.Context) -> None:
    """Pin the running version of tritonstack in this repository.

    Run it after `pip install 'tritonstack[cli]==VERSION'`. It changes the version in requirements.txt and
    rewrites constraints.txt with the packages that the version was tested with; no other file changes.

    Example: tritonstack upgrade
    """
    state: Context = context.obj
    pinned = pin_version(state.project)
    text = f"{pinned.version}: up to date"
    if pinned.files:
        downgrade = " (a downgrade)" if pinned.is_downgrade else ""
        removed = f"; removed from constraints.txt: {', '.join(pinned.removed)}" if pinned.removed else ""
        text = (
            f"{pinned.previous} -> {pinned.version}{downgrade} in {', '.join(pinned.files)}{removed}; "
            "next: `pip install -r requirements.txt`, `tritonstack setup`, `tritonstack validate`"
        )
    state.output.result(pinned.to_json(), text=text)
