"""`tritonstack destroy`: delete an environment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, NameOption, PrefixOption, RegionOption
from tritonstack.operate.destroy.destroy import (
    Destruction,
    DestructionPlan,
    jobs_text,
    name_required,
    plan_destruction,
)
from tritonstack.operate.destroy.destroy import destroy as run
from tritonstack.operate.shared.deployed import LocationFilter


def destroy(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    environment: Annotated[
        str,
        typer.Argument(help="The environment to destroy, or a template.", autocompletion=complete_deployable),
    ],
    name: NameOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; change nothing.")
    ] = False,
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="ENVIRONMENT", help="Its name, if --yes is not sufficient."),
    ] = None,
    account: AccountOption = None,
    region: RegionOption = None,
    prefix: PrefixOption = None,
) -> None:
    """Delete an environment: endpoints, buckets with their contents, keys, images, and alarms.

    Stops running builds in its account first, and deletes the records of ended jobs. Resources that its
    stacks retain (`removal: retain`) are kept and listed. Can be interrupted and rerun; it resumes. An
    environment without a file is found by its name.

    A protected environment is rejected until its file has `protected: false`, committed and deployed; with
    --dry-run, its resources are listed all the same. One that retains data, or was ever protected, also
    requires its name: typed, or with --confirm and --yes.

    Example: tritonstack destroy local --yes

    Example: tritonstack destroy preview --name pr-123 --yes
    """
    state: Context = context.obj
    where = LocationFilter(account, region, prefix)
    plan = plan_destruction(state, environment, instance=name, where=where, dry_run=dry_run)
    if dry_run:
        state.output.result(plan, text="\n".join(_preview_lines(plan)))
        if not (plan.is_empty or plan.rejected):
            state.output.suggest(f"tritonstack destroy {plan.target.cli_arguments}")
        return
    _confirmed(state, plan, yes=yes, confirm=confirm)
    destruction = run(state, plan, confirm=plan.target.name)
    state.output.result(destruction, text="\n".join(_result_lines(destruction)))


def _preview_lines(plan: DestructionPlan) -> Iterator[str]:
    summary = "nothing to destroy" if plan.is_empty else "would be destroyed in this order"
    yield f"{plan.target.name}: {summary}"
    yield from (f"  would be stopped   build {build.description}" for build in plan.builds)
    if plan.jobs:
        yield f"  would be deleted   {jobs_text(len(plan.jobs))}"
    yield from (f"  would be deleted   {', '.join(layer)}" for layer in plan.layers)
    yield from (f"  with its contents  bucket {bucket}" for bucket in plan.buckets)
    yield from (f"  with its contents  repository {name}" for name in plan.repositories)
    yield from (f"  after KMS's delay  key {key}" for key in plan.keys)
    yield from (f"  would be deleted   log group {name}" for name in plan.log_groups)
    yield from (f"  would be deleted   {name}, which was replaced" for name in plan.replaced)
    yield from (f"  would be kept      {item.type} {item.id}" for item in plan.retained)
    if plan.needs_name and not plan.is_empty:
        yield f"requires its name: typed, or --yes --confirm {plan.target.name}"
    if error := plan.rejected:
        yield f"rejected: {error.message} [{error.code}]"
        yield f"  help: {error.remedy}"


def _confirmed(state: Context, plan: DestructionPlan, *, yes: bool, confirm: str | None) -> None:
    """Raise unless the user has confirmed the destruction."""
    name, stacks = plan.target.name, ", ".join(plan.stacks) or "any remaining resources"
    for build in plan.builds:
        state.output.note(f"stopped first: build {build.description}")
    for item in plan.retained:
        state.output.note(f"kept (retained by its stack): {item.type} {item.id}")
    if plan.needs_name:
        _confirm_by_name(name, stacks, yes=yes, confirm=confirm)
    elif confirm not in (None, name):
        raise CommandLineError(
            f"--confirm is {confirm!r}, expected {name!r}",
            remedy=f"to destroy {name!r}, pass --confirm {name}; else correct the environment",
        )
    elif not yes:
        _confirm(name, stacks)


def _confirm_by_name(name: str, stacks: str, *, yes: bool, confirm: str | None) -> None:
    if confirm is None and not yes and sys.stdin.isatty():
        confirm = typer.prompt(f"This deletes {stacks}. Type the environment's name to confirm", err=True)
    if confirm != name or not (yes or sys.stdin.isatty()):
        raise name_required(name, confirm)


def _confirm(name: str, stacks: str) -> None:
    if not sys.stdin.isatty():
        raise CommandLineError(
            f"destroying {name} deletes {stacks} and requires confirmation", remedy="add --yes"
        )
    typer.confirm(f"Delete {stacks} with all their data?", abort=True, err=True)


def _result_lines(destroyed: Destruction) -> list[str]:
    target = destroyed.target
    lines, retained = [f"environment {target.name} is destroyed"], destroyed.retained
    if retained:
        lines[0] += f", except {len(retained)} retained resources:"
        lines += [f"  {item.type} {item.id}" for item in retained]
    if destroyed.stacks:
        lines.append(
            f"run `tritonstack audit {target.cli_arguments} --gone` to check for leftovers; "
            "assets in the CDK's bootstrap bucket belong to the account and are kept"
        )
    return lines
