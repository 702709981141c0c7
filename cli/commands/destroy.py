"""`tritonstack destroy`: take an environment down to nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from catalog.errors import UsageError
from cli.context import Context
from cli.selection import AccountOption, NameOption, PrefixOption, RegionOption
from cli.standing import Place, Standing, find_standing, require_unprotected_file
from operations.checkout import Checkout
from operations.deploying.cdk import InterruptedDeployError
from operations.destruction.deletion import Retained, contents_of
from operations.destruction.destroy import Destroyed, destroy_environment
from operations.destruction.protection import needs_its_name, require_unprotected
from operations.stacks import environment_stacks


def destroy(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to destroy, or a template.")],
    name: NameOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="ENVIRONMENT", help="Its name, where --yes is not enough."),
    ] = None,
    account: AccountOption = None,
    region: RegionOption = None,
    prefix: PrefixOption = None,
) -> None:
    """Delete an environment's endpoints, its buckets with all they hold, its keys, images and alarms.

    What its stacks are to retain (`removal: retain`) stays, and is listed. It can be stopped at any moment
    and run again: it goes on. An environment whose file is gone is found by its name.

    A protected environment is refused until its file says `protected: false`, committed and deployed. One
    that keeps data, or was ever protected, also wants its name: typed, or with --confirm beside --yes.

    Example: tritonstack destroy local --yes

    Example: tritonstack destroy preview --name pr-123 --yes
    """
    state: Context = context.obj
    place = Place(account, region, prefix)
    require_unprotected_file(state.project, environment, name, place)
    standing = find_standing(state, environment, name, place)
    kept = _permitted(state, standing, yes=yes, confirm=confirm)
    try:
        with state.output.step(f"destroying {standing.name}") as step:
            destroyed = destroy_environment(standing.cloud, standing.base, tell=step.log)
            count = len(destroyed.stacks)
            step.detail = f"{count} stacks deleted" if count else "no stack was left"
    except KeyboardInterrupt:
        raise InterruptedDeployError(
            "interrupted; CloudFormation finishes the deletions that it has begun",
            remedy=f"`tritonstack destroy {standing.words}` waits for that and goes on",
        ) from None
    state.output.result(
        {
            "environment": standing.name,
            "deleted_stacks": list(destroyed.stacks),
            "deleted_log_groups": list(destroyed.log_groups),
            "retained": [asdict(item) for item in destroyed.retained],
        },
        text="\n".join(_words(standing, destroyed, kept)),
    )


def _permitted(state: Context, standing: Standing, *, yes: bool, confirm: str | None) -> Sequence[Retained]:
    """What is to be retained, once everything that stands in the way of a destruction was lifted."""
    checkout = Checkout(state.project.root)
    stacks = environment_stacks(standing.cloud, standing.base)
    require_unprotected(
        standing.name, spec=standing.spec, file=standing.file, stacks=stacks, checkout=checkout
    )
    kept = [item for stack in stacks for item in contents_of(standing.cloud, stack.name).retained]
    names = ", ".join(stack.name for stack in stacks) or "what may be left"
    for item in kept:
        state.output.note(f"stays, as its stack asks for it: {item.type} {item.id}")
    if needs_its_name(standing.spec, file=standing.file, keeps_data=bool(kept), checkout=checkout):
        _confirm_by_name(standing.name, names, yes=yes, confirm=confirm)
    elif confirm not in (None, standing.name):
        raise UsageError(f"--confirm says {confirm!r}, and this is {standing.name!r}")
    elif not yes:
        _confirm(standing.name, names)
    return kept


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


def _words(standing: Standing, destroyed: Destroyed, kept: Sequence[Retained]) -> list[str]:
    lines = [f"environment {standing.name} is gone"]
    if kept:
        lines[0] += f", but for {len(kept)} resources that its stacks were to retain:"
        lines += [f"  {item.type} {item.id}" for item in kept]
    if destroyed.stacks:
        lines.append(
            f"`tritonstack audit {standing.words} --gone` looks for anything else; assets in the CDK's "
            "bootstrap bucket stay, they belong to the account"
        )
    return lines
