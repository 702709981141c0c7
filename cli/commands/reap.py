"""`tritonstack reap`: destroy what has expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from catalog.errors import TritonstackError
from cli.context import Context
from cli.output import Steps
from cli.selection import AccountOption, PrefixOption, RegionOption
from cli.standing import Ground, Place, require_grounds
from operations.aws import Cloud, CloudAccessError
from operations.destruction.reaping import Leased, leased
from operations.destruction.reaping import reap as take_down

_AT_ONCE = 4
_WORDS: Mapping[str, str] = {
    "lives": "lives until {expires}",
    "protected": "is protected, and stays",
    "unreadable": "has an `expires` tag that is no time, and stays",
}


@dataclass(frozen=True)
class _Case:
    """One environment with an expiry, and where it is."""

    cloud: Cloud
    lease: Leased


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
    cases, unreachable, refused = _look(state, places, now)
    if len(unreachable) == len(places):
        raise CloudAccessError(
            "\n".join(["no place can be looked at where something could have expired:", *unreachable]),
            remedy="log in, or name the place with --account and --region",
        )
    expired = [case for case in cases if case.lease.verdict == "expired"]
    failures = {} if dry_run else _reap(state, expired, now)
    reaped = [] if dry_run else [case.lease.base for case in expired if case.lease.base not in failures]
    state.output.result(
        {
            "dry_run": dry_run,
            "expired": [asdict(case.lease) for case in expired],
            "reaped": reaped,
            "failed": failures,
            "kept": [asdict(case.lease) for case in cases if case not in expired],
            "unreachable": unreachable,
        },
        text="\n".join(_lines(cases, failures, unreachable, dry_run=dry_run)),
    )
    if failures or refused:
        raise typer.Exit(1)


def _look(state: Context, places: Sequence[Ground], now: datetime) -> tuple[list[_Case], list[str], bool]:
    """What expires in all places; which cannot be reached; whether one refused what it has to allow."""
    cases, unreachable, refused = [], [], False
    for ground in places:
        where = f"{ground.account} {ground.region}"
        try:
            cloud = state.cloud_at(ground.account, ground.region, what=f"what expires in {where}")
            cases += [_Case(cloud, item) for item in leased(cloud, prefix=ground.prefix, now=now)]
        except CloudAccessError as error:
            unreachable.append(f"{where}: {error.message}")
        except (ClientError, BotoCoreError) as error:
            unreachable.append(f"{where}: {error}")
            refused = True
    return cases, unreachable, refused


def _reap(state: Context, expired: Sequence[_Case], now: datetime) -> dict[str, str]:
    """Destroy them; gives why it failed, for those that it failed for."""
    with state.output.steps() as steps, ThreadPoolExecutor(_AT_ONCE) as pool:
        ended = list(pool.map(lambda case: _take_down(steps, case, now), expired))
    return {case.lease.base: why for case, why in zip(expired, ended, strict=True) if why}


def _take_down(steps: Steps, case: _Case, now: datetime) -> str:
    base = case.lease.base
    with steps.step(f"destroying {base}, expired at {case.lease.expires}", label=base) as step:
        try:
            if not take_down(case.cloud, base, now=now, tell=step.log):
                step.detail = "it was given more time"
        except (TritonstackError, ClientError, BotoCoreError) as error:
            step.failed = True
            return str(error)
    return ""


def _lines(
    cases: Sequence[_Case], failures: Mapping[str, str], unreachable: Sequence[str], *, dry_run: bool
) -> list[str]:
    lines = [
        f"{lease.base} of {lease.owner} {_word(lease, failures, dry_run=dry_run)}"
        for lease in (case.lease for case in cases)
    ]
    lines = lines or ["nothing carries an expiry"]
    return [*lines, *(f"not looked at: {where}" for where in unreachable)]


def _word(lease: Leased, failures: Mapping[str, str], *, dry_run: bool) -> str:
    if lease.verdict != "expired":
        return _WORDS[lease.verdict].format(expires=lease.expires)
    if lease.base in failures:
        return f"expired at {lease.expires}, and remains: {failures[lease.base]}"
    return f"expired at {lease.expires}, and {'would be' if dry_run else 'was'} destroyed"
