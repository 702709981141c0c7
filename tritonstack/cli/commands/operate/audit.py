"""`tritonstack audit`: list all resources and their owners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.selection import AccountOption, NameOption, PrefixOption, RegionOption
from tritonstack.operate.audit.audit import Item, Report
from tritonstack.operate.audit.audit import audit as run
from tritonstack.operate.shared.deployed import LocationFilter


def audit(
    context: typer.Context,
    environment: Annotated[
        str | None,
        typer.Argument(
            help="An environment or a template (default: all of the project).",
            autocompletion=complete_deployable,
        ),
    ] = None,
    name: NameOption = None,
    gone: Annotated[bool, typer.Option("--gone", help="Fail if anything remains.")] = False,
    account: AccountOption = None,
    region: RegionOption = None,
    prefix: PrefixOption = None,
) -> None:
    """List every resource of an environment, by name and by tag, inside and outside CloudFormation.

    Queries each service directly, so it also finds orphans, which belong to no stack. Exits with code 1 if
    there are orphans, if a service denied access, or with --gone if anything remains. Keys and unconfirmed
    subscriptions with scheduled deletion are counted separately. Changes nothing.

    Example: tritonstack audit dev

    Example: tritonstack audit preview --name pr-123 --gone
    """
    state: Context = context.obj
    audited = run(state, environment, instance=name, where=LocationFilter(account, region, prefix))
    state.output.result(
        audited,
        text="\n\n".join(
            "\n".join(_report_lines(subject, report)) for subject, report in audited.reports.items()
        ),
    )
    if not (audited.gone if gone else audited.clean):
        raise typer.Exit(1)


def _report_lines(subject: str, report: Report) -> list[str]:
    lines = [_line(item) for item in report.resources]
    lines += [f"{item.service} could not be listed: {item.message}" for item in report.not_listed]
    in_stacks = len(report.resources) - len(report.orphans)
    belong = "1 resource belongs to a stack" if in_stacks == 1 else f"{in_stacks} resources belong to stacks"
    summary = f"{subject}: {belong}, {len(report.orphans)} orphaned"
    if not (report.items or report.not_described or report.not_listed):
        summary += "; no deployment found"
    if report.pending_deletion:
        summary += f"; {_pending_text(report.pending_deletion)}"
    if report.not_described:
        summary += f"; {_unreadable_text(len(report.not_described))}"
    if report.not_listed:
        summary += "; incomplete: some services could not be listed"
    return [*lines, summary, *_remedies(report.orphans)]


def _pending_text(pending: Sequence[Item]) -> str:
    keys = sum(item.type == "AWS::KMS::Key" for item in pending)
    counts = (("key", keys), ("subscription", len(pending) - keys))
    resources = " and ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts if count)
    return f"{resources} scheduled for deletion"


def _unreadable_text(count: int) -> str:
    keys = "1 key" if count == 1 else f"{count} keys"
    return (
        f"{keys} of the account could not be checked: key policies deny access, unlike those of these stacks"
    )


def _line(item: Item) -> str:
    return f"{item.type:<44} {item.id}  {f'of {item.stack}' if item.stack else 'ORPHANED'}"


def _remedies(orphans: Sequence[Item]) -> list[str]:
    if not orphans:
        return []
    return ["  help: no command deletes orphans: check each one and delete it manually"]
