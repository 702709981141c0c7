"""`tritonstack reap`: destroy what has expired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, PrefixOption, RegionOption
from tritonstack.operations.destruction.reaping import Leased
from tritonstack.workflows.environments.deployed import LocationFilter
from tritonstack.workflows.environments.expiring import Cases, expiry_text
from tritonstack.workflows.environments.reap import reap as run


def reap(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be destroyed.")] = False,
    account: AccountOption = None,
    region: RegionOption = None,
    prefix: PrefixOption = None,
) -> None:
    """Destroy every environment whose `expires` tag has passed, several side by side.

    It looks wherever this project's environments live, as far as the credentials at hand reach; --account,
    --region and --prefix say where else, or where alone. What carries no `expires` tag, or is protected, is
    never touched. A destruction that fails does not stop the others. Exit code 1 if something that has
    expired remains, or a place that can be reached did not tell.

    Example: tritonstack reap --dry-run
    """
    state: Context = context.obj
    reaping = run(state, where=LocationFilter(account, region, prefix), dry_run=dry_run)
    text = "\n".join(_lines(reaping.found, reaping.failures, dry_run=dry_run))
    state.output.result(reaping.to_json(), text=text)
    if not reaping.succeeded:
        raise typer.Exit(1)


def _lines(found: Cases, failures: Mapping[str, str], *, dry_run: bool) -> list[str]:
    lines = [
        expiry_text(case.lease) + _fate(case.lease, failures, dry_run=dry_run) for case in found.cases
    ] or ["nothing carries an expiry"]
    return [*lines, *(f"not looked at: {where}" for where in found.gaps)]


def _fate(lease: Leased, failures: Mapping[str, str], *, dry_run: bool) -> str:
    if lease.verdict != "expired":
        return ""
    if lease.base in failures:
        return f", and remains: {failures[lease.base]}"
    return f", and {'would be' if dry_run else 'was'} destroyed"
