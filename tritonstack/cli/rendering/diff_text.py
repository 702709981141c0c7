"""Render the changes of a deployment as text, and for a pull request comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tritonstack.base.revisions import short_commit
from tritonstack.operate.deploy.cdk_changes import PlannedChange
from tritonstack.operate.deploy.plans import StackPlan
from tritonstack.operate.diff.diff import DeployOutlook

_LISTED = 5
_LONGEST_LINE = 240
"""Limit for the CDK's diff: a dashboard is one line of thousands of characters."""
_LONGEST_COMMENT = 60_000
"""GitHub limits comments to 65,536 characters."""


def plan_details(outlook: DeployOutlook, plan: StackPlan) -> Iterator[str]:
    """Describe a stack beyond its plan, one item per line; rejected changes come first."""
    conflicts = outlook.taken_by(plan.stack)
    yield from (conflict.summary for conflict in conflicts)
    yield from dict.fromkeys(f"help: {conflict.remedy}" for conflict in conflicts)
    yield from plan.details
    yield from _resource_lines(outlook.resource_changes.get(plan.stack, ()))


def outlook_comment(outlook: DeployOutlook) -> str:
    """Render for a pull request. The first line is constant, so that a workflow finds its own comment."""
    since = f" --since {short_commit(outlook.since)}" if outlook.since else ""
    name = f"{outlook.workspace.cli_arguments}{since}"
    head = [
        comment_marker(f"{outlook.workspace.spec.name}{since and ' since'}"),
        f"### `tritonstack diff {name}`",
        "",
        f"**{outlook_summary(outlook)}**",
        "",
    ]
    if outlook.model_lines:
        head += ["Models:", "", *(f"- {escaped(text)}" for text in outlook.model_lines), ""]
    items = [line for plan in outlook.changes.plans for line in _plan_items(plan, outlook)]
    items += [f"- {escaped(text)}" for text in other_lines(outlook)]
    head += ["Stacks:", "", *(items or ["- nothing changes"]), ""]
    text = "\n".join(map(clipped, outlook.cdk_lines)).strip()
    room = _LONGEST_COMMENT - len("\n".join(head))
    if len(text) > room:
        text = f"{text[: max(room, 0)]}\n… and more: run `tritonstack diff {name}`"
    tail = ["<details><summary>The CDK's own diff</summary>", "", fenced(text), "", "</details>"]
    return "\n".join([*head, *tail])


def comment_marker(environment: str) -> str:
    """Return the first line of every comment about an environment."""
    return f"<!-- tritonstack diff {environment} -->"


def outlook_summary(outlook: DeployOutlook) -> str:
    """Return what the deployment does, in one sentence."""
    if outlook.rejected:
        return "This deployment would be rejected."
    if outlook.changes_nothing:
        return "This deployment changes nothing."
    counts = {
        "created": sum(plan.action == "create" for plan in outlook.changes.plans),
        "rolled out": sum(plan.action in ("roll-out", "two-phase") for plan in outlook.changes.plans),
        "changed in place": sum(plan.action == "change" for plan in outlook.changes.plans),
    }
    parts = [
        f"{count} {'stack' if count == 1 else 'stacks'} {action}" for action, count in counts.items() if count
    ]
    if outlook.model_prefixes:
        parts.append(f"{sum(map(len, outlook.model_prefixes.values()))} models copied to model prefixes")
    return f"This deployment: {', '.join(parts)}."


def _plan_items(plan: StackPlan, outlook: DeployOutlook) -> Iterator[str]:
    if plan.action == "nothing":
        return
    yield f"- {escaped(plan.summary)}"
    for line in plan_details(outlook, plan):
        yield f"  - {escaped(line)}"


def _resource_lines(changes: Iterable[PlannedChange]) -> Iterator[str]:
    """Describe changes of resources; those of every rollout are summarized in one line."""
    unexpected = [change for change in changes if not change.expected]
    expected = [change for change in changes if change.expected and change.action != "deleted"]
    if expected:
        yield f"replaced on every rollout: {', '.join(change.logical_id for change in expected)}"
    yield from (
        change.summary
        for change in sorted(unexpected, key=lambda change: (not change.rejected, change.logical_id))
    )


def other_lines(outlook: DeployOutlook) -> Iterator[str]:
    """Describe changes other than those of requested stacks."""
    yield from outlook.leftover_lines
    for endpoint, models in outlook.model_prefixes.items():
        shown = ", ".join(models[:_LISTED]) + (" and more" if len(models) > _LISTED else "")
        go = "1 model is" if len(models) == 1 else f"{len(models)} models are"
        yield f"{endpoint}: {go} copied to its model prefix, without a rollout: {shown}"


def clipped(line: str) -> str:
    """Return a line of the CDK's diff, without the end of a very long one."""
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def escaped(text: str) -> str:
    """Escape Markdown, except inline code."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|")


def fenced(text: str, language: str = "") -> str:
    """Return a code block whose fence no line of the text closes."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
