"""`tritonstack reap`: destroy expired environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, PrefixOption, RegionOption
from tritonstack.workflows.environments.deployed import LocationFilter
from tritonstack.workflows.environments.expiring import ExpiringEnvironments, ExpiryState, expiry_text
from tritonstack.workflows.environments.reap import reap as run


def reap(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be destroyed.")] = False,
    account: AccountOption = None,
    region: RegionOption = None,
    prefix: PrefixOption = None,
) -> None:
    """Destroy all environments whose `expires` tag has passed, in parallel.

    Searches all locations of this project's environments that the current credentials can access; --account,
    --region, and --prefix select others. Environments without an `expires` tag and protected ones are never
    destroyed. A failed destruction does not stop the others. Exits with code 1 if an expired environment
    remains, or an accessible location could not be searched.

    Example: tritonstack reap --dry-run
    """
    state: Context = context.obj
    reaping = run(state, where=LocationFilter(account, region, prefix), dry_run=dry_run)
    text = "\n".join(_lines(reaping.found, reaping.failures, dry_run=dry_run))
    state.output.result(reaping.to_json(), text=text)
    if not reaping.succeeded:
        raise typer.Exit(1)


def _lines(found: ExpiringEnvironments, failures: Mapping[str, str], *, dry_run: bool) -> list[str]:
    lines = [
        expiry_text(case.state) + _outcome(case.state, failures, dry_run=dry_run) for case in found.cases
    ] or ["no environment has an expiry"]
    return [*lines, *(f"not searched: {gap}" for gap in found.gaps)]


def _outcome(state: ExpiryState, failures: Mapping[str, str], *, dry_run: bool) -> str:
    if state.verdict != "expired":
        return ""
    if state.base in failures:
        return f"; not destroyed: {failures[state.base]}"
    return "; would be destroyed" if dry_run else "; destroyed"
