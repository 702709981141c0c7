"""`tritonstack reap`: destroy expired environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, PrefixOption, RegionOption
from tritonstack.operate.destroy.reap import Reaping, ReapOutcome, expiry_text, gap_lines
from tritonstack.operate.destroy.reap import reap as run
from tritonstack.operate.shared.deployed import LocationFilter

_OUTCOMES: Mapping[ReapOutcome, str] = {
    "kept": "",
    "planned": "; would be destroyed",
    "destroyed": "; destroyed",
    "extended": "; extended meanwhile, not destroyed",
    "failed": "; not destroyed: {failure}",
}


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
    state.output.result(reaping, text="\n".join(_lines(reaping)))
    if not reaping.succeeded:
        raise typer.Exit(1)


def _lines(reaping: Reaping) -> Iterator[str]:
    for environment in reaping.environments:
        yield expiry_text(environment.state) + _OUTCOMES[environment.outcome].format(
            failure=environment.failure
        )
    if not reaping.environments:
        yield "no environment has an expiry"
    yield from (f"not searched: {gap}" for gap in gap_lines(reaping.not_searched))
