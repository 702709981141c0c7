"""`tritonstack audit`: every resource that stands or is left, and whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from tritonstack.base import naming
from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, NameOption, PrefixOption, RegionOption
from tritonstack.operations.audit.found import Scope
from tritonstack.operations.audit.report import Item, Refusal, Report
from tritonstack.operations.audit.report import audit as look
from tritonstack.operations.aws import Cloud, CloudAccessError
from tritonstack.project.loading import environment_names
from tritonstack.workflows.environments.deployed import (
    Ground,
    Place,
    Standing,
    find_standing,
    require_grounds,
)


def audit(
    context: typer.Context,
    environment: Annotated[
        str | None, typer.Argument(help="An environment, or a template; all of the project's if not given.")
    ] = None,
    name: NameOption = None,
    gone: Annotated[bool, typer.Option("--gone", help="Fail if anything at all is left.")] = False,
    account: AccountOption = None,
    region: RegionOption = None,
    prefix: PrefixOption = None,
) -> None:
    """List every resource of an environment, by name and by tag, in CloudFormation and outside it.

    Each service is asked for itself, so what no stack knows of any more is found, too. Exit code 1 if there
    is such an orphan, if a service refused to answer, or with --gone if anything is left. Keys and
    unconfirmed subscriptions that wait for their deletion are counted apart. Changes nothing.

    Example: tritonstack audit dev

    Example: tritonstack audit preview --name pr-123 --gone
    """
    state: Context = context.obj
    place = Place(account, region, prefix)
    if environment is None:
        reports = _everywhere(state, require_grounds(state.project, place))
    else:
        standing = find_standing(state, environment, name, place)
        reports = {standing.name: _look(state, standing.cloud, _scope(standing), _others(state, standing))}
    failed = [_failed(report, gone=gone) for report in reports.values()]
    state.output.result(
        {what: report.facts() for what, report in reports.items()},
        text="\n\n".join("\n".join(_words(what, report)) for what, report in reports.items()),
    )
    if any(failed):
        raise typer.Exit(1)


def _everywhere(state: Context, grounds: Sequence[Ground]) -> dict[str, Report]:
    """A report for each place; of one that cannot be reached, all services refuse to tell."""
    reports, errors = dict[str, Report](), list[CloudAccessError]()
    for ground in grounds:
        where = f"{ground.prefix} in {ground.account} {ground.region}"
        try:
            cloud = state.cloud_at(ground.account, ground.region, what=f"what begins with {ground.prefix!r}")
        except CloudAccessError as error:
            errors.append(error)
            reports[where] = Report((), (Refusal("every service", error.message),))
        else:
            reports[where] = _look(state, cloud, Scope(ground.prefix, {"project": ground.prefix}, whole=True))
    if len(errors) == len(grounds):
        raise errors[0]
    return reports


def _look(state: Context, cloud: Cloud, scope: Scope, others: Iterable[str] = ()) -> Report:
    where = f"{cloud.account} {cloud.region}"
    with state.output.step(f"asking each service in {where} for what begins with {scope.base}") as step:
        report = look(cloud, scope, others=others)
        step.detail = f"{len(report.there)} resources"
    return report


def _scope(standing: Standing) -> Scope:
    prefix = standing.base.removesuffix(f"-{standing.name}")
    usual = {"project": prefix, "environment": standing.name}
    given = standing.spec.tags if standing.spec else {}
    return Scope(standing.base, {key: given.get(key, value) for key, value in usual.items()})


def _others(state: Context, standing: Standing) -> list[str]:
    prefix = standing.base.removesuffix(f"-{standing.name}")
    names = [name for name in environment_names(state.project) if name != standing.name]
    return [naming.environment_prefix(prefix=prefix, environment=name) for name in names]


def _failed(report: Report, *, gone: bool) -> bool:
    return bool(report.orphans or report.refusals or (gone and report.there))


def _words(what: str, report: Report) -> list[str]:
    lines = [_line(item) for item in report.there]
    lines += [f"{item.service} refused to say what it has: {item.message}" for item in report.refusals]
    stand = len(report.there) - len(report.orphans)
    belong = "1 resource belongs to a stack" if stand == 1 else f"{stand} resources belong to stacks"
    summary = f"{what}: {belong}, {len(report.orphans)} to none"
    if report.pending:
        summary += f"; {_pending_words(report.pending)}"
    if report.unseen:
        summary += f"; {_unseen_words(len(report.unseen))}"
    if report.refusals:
        summary += "; some services refused, so there may be more"
    return [*lines, summary, *_remedies(report.orphans)]


def _pending_words(pending: Sequence[Item]) -> str:
    keys = sum(item.type == "AWS::KMS::Key" for item in pending)
    counts = (("key", keys), ("subscription", len(pending) - keys))
    what = " and ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts if count)
    return f"{what} {'waits for its' if len(pending) == 1 else 'wait for their'} deletion"


def _unseen_words(count: int) -> str:
    whose = "1 key of the account" if count == 1 else f"{count} keys of the account"
    own = "its own policy keeps" if count == 1 else "their own policies keep"
    return f"{whose} could not be looked at: {own} this caller out, as no stack here has it"


def _line(item: Item) -> str:
    return f"{item.type:<44} {item.id}  {f'of {item.stack}' if item.stack else 'ORPHANED: of no stack'}"


def _remedies(orphans: Sequence[Item]) -> list[str]:
    if not orphans:
        return []
    return ["  help: what no stack knows of, no command here deletes: look at each, and delete it by hand"]
