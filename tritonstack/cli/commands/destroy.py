"""`tritonstack destroy`: take an environment down to nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from tritonstack.base.errors import UsageError
from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, NameOption, PrefixOption, RegionOption
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.deploying.cdk import InterruptedDeployError
from tritonstack.operations.destruction.destroy import Destroyed, Foreseen, destroy_environment, foresee
from tritonstack.operations.destruction.protection import needs_its_name, require_unprotected
from tritonstack.operations.stacks import environment_stacks
from tritonstack.workflows.environments.deployed import (
    Place,
    Standing,
    find_standing,
    require_unprotected_file,
)


def destroy(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to destroy, or a template.")],
    name: NameOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")
    ] = False,
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="ENVIRONMENT", help="Its name, where --yes is not enough."),
    ] = None,
    account: AccountOption = None,
    region: RegionOption = None,
    prefix: PrefixOption = None,
) -> None:
    """Delete an environment's endpoints, its buckets with all they hold, its keys, images and alarms.

    Builds that are under way in its account are stopped first, and waited for; SageMaker's records of those
    that have ended go. What its stacks are to retain
    (`removal: retain`) stays, and is listed. It can be stopped at any moment and run again: it goes on. An
    environment whose file is gone is found by its name.

    A protected environment is refused until its file says `protected: false`, committed and deployed. One
    that keeps data, or was ever protected, also wants its name: typed, or with --confirm beside --yes.

    Example: tritonstack destroy local --yes

    Example: tritonstack destroy preview --name pr-123 --yes
    """
    state: Context = context.obj
    place = Place(account, region, prefix)
    require_unprotected_file(state.project, environment, name, place)
    standing = find_standing(state, environment, name, place)
    foreseen, wants_name = _foreseen(state, standing)
    if dry_run:
        _tell_foreseen(state, standing, foreseen, wants_name=wants_name)
        return
    _confirmed(state, standing, foreseen, Consent(yes, confirm, wants_name))
    try:
        with state.output.step(f"destroying {standing.name}") as step:
            destroyed = destroy_environment(standing.cloud, standing.base, tell=step.log)
            step.detail = _detail(destroyed)
    except KeyboardInterrupt:
        raise InterruptedDeployError(
            "interrupted; CloudFormation finishes the deletions that it has begun",
            remedy=f"`tritonstack destroy {standing.words}` waits for that and goes on",
        ) from None
    state.output.result(
        {
            "environment": standing.name,
            "stopped_builds": [asdict(build) for build in destroyed.builds],
            "deleted_jobs": list(destroyed.jobs),
            "deleted_stacks": list(destroyed.stacks),
            "deleted_log_groups": list(destroyed.log_groups),
            "retained": [asdict(item) for item in destroyed.retained],
        },
        text="\n".join(_words(standing, destroyed)),
    )


@dataclass(frozen=True)
class Consent:
    """What a person has said to a destruction, and what is wanted of them."""

    yes: bool
    confirm: str | None
    wants_name: bool


def _foreseen(state: Context, standing: Standing) -> tuple[Foreseen, bool]:
    """What would go, and whether that takes its name; raises where it is protected."""
    checkout = Checkout(state.project.root)
    stacks = environment_stacks(standing.cloud, standing.base)
    require_unprotected(
        standing.name, spec=standing.spec, file=standing.file, stacks=stacks, checkout=checkout
    )
    foreseen = foresee(standing.cloud, standing.base)
    keeps_data = bool(foreseen.retained)
    return foreseen, needs_its_name(
        standing.spec, file=standing.file, keeps_data=keeps_data, checkout=checkout
    )


def _tell_foreseen(state: Context, standing: Standing, foreseen: Foreseen, *, wants_name: bool) -> None:
    facts = {
        "environment": standing.name,
        "dry_run": True,
        "running_builds": [asdict(build) for build in foreseen.builds],
        "ended_jobs": list(foreseen.jobs),
        "stacks": foreseen.stacks,
        "buckets": list(foreseen.buckets),
        "repositories": list(foreseen.repositories),
        "keys": list(foreseen.keys),
        "log_groups": list(foreseen.log_groups),
        "retained": [asdict(item) for item in foreseen.retained],
        "wants_its_name": wants_name,
    }
    state.output.result(facts, text="\n".join(_foreseen_words(standing, foreseen, wants_name=wants_name)))


def _foreseen_words(standing: Standing, foreseen: Foreseen, *, wants_name: bool) -> Iterator[str]:
    nothing = not (foreseen.builds or foreseen.jobs or foreseen.layers or foreseen.log_groups)
    yield f"{standing.name}: {'nothing of it is left to destroy' if nothing else 'would go, in this order'}"
    yield from (f"  would be stopped   build {build.words}" for build in foreseen.builds)
    if foreseen.jobs:
        yield f"  would be deleted   {_jobs_words(len(foreseen.jobs))}"
    yield from (f"  would be deleted   {', '.join(layer)}" for layer in foreseen.layers)
    yield from (f"  with all it holds  bucket {bucket}" for bucket in foreseen.buckets)
    yield from (f"  with all it holds  repository {name}" for name in foreseen.repositories)
    yield from (f"  after KMS's wait   key {key}" for key in foreseen.keys)
    yield from (f"  would be deleted   log group {name}" for name in foreseen.log_groups)
    yield from (f"  would stay         {item.type} {item.id}" for item in foreseen.retained)
    if wants_name and not nothing:
        yield f"it wants its name: typed, or --yes --confirm {standing.name}"


def _confirmed(state: Context, standing: Standing, foreseen: Foreseen, consent: Consent) -> None:
    """Raise unless a person has said yes to all that goes."""
    names = ", ".join(foreseen.stacks) or "what may be left"
    for build in foreseen.builds:
        state.output.note(f"is stopped first: build {build.words}")
    for item in foreseen.retained:
        state.output.note(f"stays, as its stack asks for it: {item.type} {item.id}")
    if consent.wants_name:
        _confirm_by_name(standing.name, names, yes=consent.yes, confirm=consent.confirm)
    elif consent.confirm not in (None, standing.name):
        raise UsageError(f"--confirm says {consent.confirm!r}, and this is {standing.name!r}")
    elif not consent.yes:
        _confirm(standing.name, names)


def _confirm_by_name(name: str, stacks: str, *, yes: bool, confirm: str | None) -> None:
    if confirm is None and not yes and sys.stdin.isatty():
        confirm = typer.prompt(f"This deletes {stacks}. Its name, to destroy it", err=True)
    if confirm == name and (yes or sys.stdin.isatty()):
        return
    raise UsageError(
        f"{name} keeps data or was protected once, so it is destroyed only by who writes its name"
        + (f"; this is not it: {confirm!r}" if confirm not in (None, name) else ""),
        remedy=f"type it when asked, or add --yes --confirm {name}",
    )


def _confirm(name: str, stacks: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"destroying {name} deletes {stacks} and needs a confirmation", remedy="add --yes")
    typer.confirm(f"Delete {stacks} with all their data?", abort=True, err=True)


def _detail(destroyed: Destroyed) -> str:
    count, builds, jobs = len(destroyed.stacks), len(destroyed.builds), len(destroyed.jobs)
    said = f"{count} {'stack' if count == 1 else 'stacks'} deleted" if count else "no stack was left"
    said += f", {builds} {'build' if builds == 1 else 'builds'} stopped" if builds else ""
    return said + (f", {_jobs_words(jobs)} deleted" if jobs else "")


def _jobs_words(count: int) -> str:
    return "1 ended Processing job" if count == 1 else f"{count} ended Processing jobs"


def _words(standing: Standing, destroyed: Destroyed) -> list[str]:
    lines, kept = [f"environment {standing.name} is gone"], destroyed.retained
    if kept:
        lines[0] += f", but for {len(kept)} resources that its stacks were to retain:"
        lines += [f"  {item.type} {item.id}" for item in kept]
    if destroyed.stacks:
        lines.append(
            f"`tritonstack audit {standing.words} --gone` looks for anything else; assets in the CDK's "
            "bootstrap bucket stay, they belong to the account"
        )
    return lines
