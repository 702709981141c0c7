"""`tritonstack reap`: destroy what has expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, PrefixOption, RegionOption
from tritonstack.operations.aws import CloudAccessError
from tritonstack.operations.destruction.reaping import Leased
from tritonstack.operations.destruction.reaping import reap as take_down
from tritonstack.workflows.environments.deployed import Place, require_grounds
from tritonstack.workflows.environments.expiring import Case, Cases, lease_words, look_for_leased
from tritonstack.workflows.reporter import Steps

_AT_ONCE = 4


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
    now = datetime.now(UTC)
    places = require_grounds(state.project, Place(account, region, prefix))
    found = look_for_leased(state, places, now=now)
    if len(found.unreachable) == len(places):
        raise CloudAccessError(
            "\n".join(["no place can be looked at where something could have expired:", *found.gaps]),
            remedy="log in, or name the place with --account and --region",
        )
    expired = [case for case in found.cases if case.lease.verdict == "expired"]
    failures = {} if dry_run else _reap(state, expired, now)
    reaped = [] if dry_run else [case.lease.base for case in expired if case.lease.base not in failures]
    state.output.result(
        {
            "dry_run": dry_run,
            "expired": [asdict(case.lease) for case in expired],
            "reaped": reaped,
            "failed": failures,
            "kept": [asdict(case.lease) for case in found.cases if case not in expired],
            "unreachable": found.gaps,
        },
        text="\n".join(_lines(found, failures, dry_run=dry_run)),
    )
    if failures or found.refused:
        raise typer.Exit(1)


def _reap(state: Context, expired: Sequence[Case], now: datetime) -> dict[str, str]:
    """Destroy them; gives why it failed, for those that it failed for."""
    with state.output.steps() as steps, ThreadPoolExecutor(_AT_ONCE) as pool:
        ended = list(pool.map(lambda case: _take_down(steps, case, now), expired))
    return {case.lease.base: why for case, why in zip(expired, ended, strict=True) if why}


def _take_down(steps: Steps, case: Case, now: datetime) -> str:
    base = case.lease.base
    with steps.step(f"destroying {base}, expired at {case.lease.expires}", label=base) as step:
        try:
            if not take_down(case.cloud, base, now=now, tell=step.log):
                step.detail = "it was given more time"
        except (TritonstackError, ClientError, BotoCoreError) as error:
            step.failed = True
            return str(error)
    return ""


def _lines(found: Cases, failures: Mapping[str, str], *, dry_run: bool) -> list[str]:
    lines = [
        lease_words(case.lease) + _fate(case.lease, failures, dry_run=dry_run) for case in found.cases
    ] or ["nothing carries an expiry"]
    return [*lines, *(f"not looked at: {where}" for where in found.gaps)]


def _fate(lease: Leased, failures: Mapping[str, str], *, dry_run: bool) -> str:
    if lease.verdict != "expired":
        return ""
    if lease.base in failures:
        return f", and remains: {failures[lease.base]}"
    return f", and {'would be' if dry_run else 'was'} destroyed"
