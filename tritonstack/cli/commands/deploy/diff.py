"""`tritonstack diff`: show what a deployment would change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.files import short_digest
from tritonstack.base.revisions import short_commit
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.diff_text import (
    clipped,
    other_lines,
    outlook_comment,
    outlook_summary,
    plan_details,
)
from tritonstack.cli.rendering.tables import MARKS, Column, FittedTable
from tritonstack.cli.selection import NameOption
from tritonstack.files.records.locks import Figures
from tritonstack.operate.deploy.plans import StackPlan
from tritonstack.operate.diff.diff import ArtifactChange, DeployOutlook
from tritonstack.operate.diff.diff import diff as run
from tritonstack.operate.diff.diff_since import diff_since as run_since
from tritonstack.operate.shared.local_cloud import deploy_commands

_ACTIONS = {
    "rejected": ("bad", "rejected"),
    "two-phase": ("change", "rollout, 2 phases"),
    "roll-out": ("change", "rollout"),
    "change": ("change", "change"),
    "create": ("new", "create"),
}
"""The actions in order of what a person has to know first; each with its mark and its name."""
_STACKS = (Column(""), Column("change"), Column("stack"), Column("what"))
_MODELS = (
    Column(""),
    Column("model"),
    Column("target", least_width=80),
    Column("artifact"),
    Column("cosine", least_width=90),
    Column("p99", "right", least_width=70),
    Column("built by", least_width=110),
)


def outlook_view(outlook: DeployOutlook, *, with_cdk: bool) -> Iterator[RenderableType]:
    """Render the changes; with `with_cdk`, the CDK's own diff first."""
    if with_cdk:
        yield Text("\n".join([*map(clipped, outlook.cdk_lines), ""]))
    on_top = f" after {short_commit(outlook.since)}" if outlook.since else ""
    subject = f"Deployment of {outlook.workspace.cli_arguments}{on_top}"
    summary = outlook_summary(outlook).replace("This deployment", subject, 1)
    yield Text(summary, "bold red" if outlook.rejected else "bold")
    plans = [plan for plan in outlook.changes.plans if plan.action != "nothing"]
    plans.sort(key=lambda plan: (_order(plan, outlook), plan.stack))
    if plans:
        yield ""
        yield FittedTable(_STACKS, [_stack_row(plan, outlook) for plan in plans])
    if outlook.artifacts:
        yield ""
        yield FittedTable(_MODELS, [_model_row(change) for change in outlook.artifacts])
    remarks = list(_remarks(outlook))
    if remarks:
        yield Text("\n".join(["", *remarks]))


def _order(plan: StackPlan, outlook: DeployOutlook) -> int:
    return list(_ACTIONS).index("rejected" if _is_rejected(plan, outlook) else plan.action)


def _is_rejected(plan: StackPlan, outlook: DeployOutlook) -> bool:
    changes = outlook.resource_changes.get(plan.stack, ())
    return bool(
        plan.action == "rejected"
        or outlook.taken_by(plan.stack)
        or any(change.rejected for change in changes)
    )


def _stack_row(plan: StackPlan, outlook: DeployOutlook) -> list[str | Text]:
    rejected = _is_rejected(plan, outlook)
    mark, action = _ACTIONS["rejected" if rejected else plan.action]
    subject = () if rejected and plan.action != "rejected" else _subject(plan)
    details = [Text(line) for line in (*subject, *plan_details(outlook, plan))]
    for line in details:
        line.highlight_regex("^rejected:", "bold red")
        line.highlight_regex("^help:", "bold cyan")
    return [MARKS[mark], Text(action, MARKS[mark].style), Text(plan.stack, "bold"), Text("\n").join(details)]


def _subject(plan: StackPlan) -> Iterator[str]:
    """Yield what happens to the stack's endpoint."""
    if plan.action == "rejected":
        yield from (f"rejected: {hazard.what}" for hazard in plan.hazards if hazard.rejected)
    elif plan.reasons:
        yield from plan.reasons
    elif plan.endpoint is not None:
        yield f"endpoint {plan.endpoint}" + ("" if plan.action == "create" else " is not affected")


def _model_row(change: ArtifactChange) -> list[str | Text]:
    before, after = change.figures_before or Figures(), change.after.figures or Figures()
    digest = short_digest(change.after.digest)
    built = change.after.built
    return [
        MARKS["change" if change.before else "new"],
        Text(change.model, "bold"),
        change.target,
        f"{short_digest(change.before)} → {digest}" if change.before else f"{digest} (new)",
        _changed(before.min_cosine, after.min_cosine, "{:.6f}"),
        _changed(before.p99_ms, after.p99_ms, "{:.1f} ms"),
        f"{built.by}, {built.at[:10]} {built.at[11:16]}" if built else "",
    ]


def _changed(before: float | None, after: float | None, form: str) -> str:
    if after is None:
        return ""
    return (
        f"{form.format(before)} → {form.format(after)}" if before not in (None, after) else form.format(after)
    )


def _remarks(outlook: DeployOutlook) -> Iterator[str]:
    name = outlook.workspace.cli_arguments
    for change in outlook.artifacts:
        subject = f"{change.model} ({change.target}): accepted bounds changed"
        yield from (f"{subject}: {line}" for line in change.changed_bounds)
    yield from (change.summary for change in outlook.images)
    yield from other_lines(outlook)
    same = [plan.stack for plan in outlook.changes.plans if plan.action == "nothing"]
    if same and not outlook.changes_nothing:
        yield f"unchanged: {', '.join(same)}"
    if outlook.changes.two_phase:
        yield (
            "SageMaker rejects a plain `cdk deploy` of changes that need two phases; "
            f"use `tritonstack deploy {name}`."
        )
    if outlook.rejected:
        yield f"`tritonstack deploy {name}` rejects this before it changes anything."


def diff(
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to compare.", autocompletion=complete_deployable)
    ],
    name: NameOption = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Compare with the files of a commit; needs no account."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print the CDK's diff of each stack first.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")] = False,
) -> None:
    """Compare an environment's files with the deployed stacks, and show what a deployment would do.

    Shows which stacks and models change, which endpoints are rolled out and how, which changes need two
    phases, what is replaced, and what would be rejected. --full and --json add the CDK's own diff. Exits
    with code 1 if anything would be rejected. Changes nothing.

    With --since, compares with the files of a commit instead of an account, for example in a review. What
    only the account knows is not checked: changes made outside of git, and names that are taken.

    Example: tritonstack diff prod

    Example: tritonstack diff prod --since $(git merge-base origin/main HEAD)

    Example: tritonstack diff prod --full
    """
    state: Context = context.obj
    if since is not None and name is not None:
        raise CommandLineError(
            "--since and --name cannot be combined",
            remedy="omit --since to compare the instance with what is deployed",
        )
    outlook = (
        run(state, environment, instance=name) if since is None else run_since(state, environment, since)
    )
    text = outlook_comment(outlook) if markdown else Group(*outlook_view(outlook, with_cdk=full))
    state.output.result(outlook, text=text)
    if outlook.rejected:
        raise typer.Exit(1)
    if not outlook.changes_nothing and since is None:
        note = "" if full else "(--full shows the CDK's diff)"
        state.output.suggest(*deploy_commands(state.project, outlook.workspace), note=note)
