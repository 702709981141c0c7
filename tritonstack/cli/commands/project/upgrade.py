"""`tritonstack upgrade`: pin the running version in a repository."""

from __future__ import annotations

import typer

from tritonstack.cli.context import Context
from tritonstack.operate.project.repository import pin_version


def upgrade(context: typer.Context) -> None:
    """Pin the running version of tritonstack in this repository.

    Run it after `pip install 'tritonstack[cli]==VERSION'`. It changes the version in requirements.txt and
    requirements-local.txt, and writes requirements.lock.txt and requirements-local.lock.txt: the packages
    that the version was tested with, with hashes. It writes constraints.txt if requirements.txt names it. No
    other file changes.

    Example: tritonstack upgrade
    """
    state: Context = context.obj
    pinned = pin_version(state.project)
    text = f"{pinned.version}: up to date"
    if pinned.files:
        downgrade = " (a downgrade)" if pinned.is_downgrade else ""
        removed = f"; no longer locked: {', '.join(pinned.removed)}" if pinned.removed else ""
        text = (
            f"{pinned.previous} -> {pinned.version}{downgrade} in {', '.join(pinned.files)}{removed}; "
            "next: in a new .venv, `pip install --no-deps --require-hashes -r requirements-local.lock.txt`, "
            "`pip install --no-deps -r requirements-local.txt`, `tritonstack setup`, `tritonstack validate`"
        )
    state.output.result(pinned, text=text)
