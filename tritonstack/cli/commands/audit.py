"""`tritonstack audit`: every resource that stands or is left, and whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, NameOption, PrefixOption, RegionOption
from tritonstack.operations.audit.report import Item, Report
from tritonstack.workflows.environments.audit import audit as run
from tritonstack.workflows.environments.deployed import LocationFilter


def audit(
    context: typer.Context,
    environment: Annotated[
        str | None,
        typer.Argument(
            help="An environment, or a template; all of the project's if not given.",
            autocompletion=complete_deployable,
        ),
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
    found = run(state, environment, instance=name, where=LocationFilter(account, region, prefix))
    state.output.result(
        found.to_json(),
        text="\n\n".join("\n".join(_words(what, report)) for what, report in found.reports.items()),
    )
    if not (found.gone if gone else found.clean):
        raise typer.Exit(1)


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
