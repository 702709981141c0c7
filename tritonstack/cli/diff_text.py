"""What a deploy would do, told to a terminal or as a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tritonstack.operations.deploying.cdk_changes import ResourceFate
from tritonstack.operations.deploying.changes import leftover_words
from tritonstack.operations.deploying.plans import StackPlan
from tritonstack.workflows.deployment.diff import DeployOutlook

_LISTED = 5
_LONGEST_LINE = 240
"""Of the CDK's own words: a dashboard is one line of thousands of letters."""
_LONGEST_COMMENT = 60_000
"""GitHub takes comments of 65,536 letters."""


def _details(outlook: DeployOutlook, plan: StackPlan) -> Iterator[str]:
    """Describe a stack beyond its plan, a line each; rejected changes come first."""
    taken = outlook.taken_by(plan.stack)
    yield from (one.words for one in taken)
    yield from dict.fromkeys(f"help: {one.remedy}" for one in taken)
    yield from plan.details
    yield from _fate_words(outlook.fates.get(plan.stack, ()))


def outlook_text(outlook: DeployOutlook) -> str:
    """For a terminal: the CDK's words first, the plan below them, where the eye ends."""
    return "\n".join([*map(_clipped, outlook.cdk_lines), "", *_plan_lines(outlook)])


def outlook_comment(outlook: DeployOutlook) -> str:
    """For a pull request. The first line never changes, so that a workflow finds its own comment again."""
    name = outlook.workspace.words
    head = [
        comment_marker(outlook.workspace.spec.name),
        f"### `tritonstack diff {name}`",
        "",
        f"**{_summary(outlook)}**",
        "",
    ]
    if outlook.models:
        head += ["Models:", "", *(f"- {_marked(words)}" for words in outlook.models), ""]
    told = [line for plan in outlook.changes.plans for line in _plan_items(plan, outlook)]
    told += [f"- {_marked(words)}" for words in _other_words(outlook)]
    head += ["Stacks:", "", *(told or ["- nothing changes"]), ""]
    words = "\n".join(map(_clipped, outlook.cdk_lines)).strip()
    room = _LONGEST_COMMENT - len("\n".join(head))
    if len(words) > room:
        words = f"{words[: max(room, 0)]}\n… and more: run `tritonstack diff {outlook.workspace.words}`"
    fence = _fence(words)
    tail = ["<details><summary>The CDK's own diff</summary>", "", fence, words, fence, "", "</details>"]
    return "\n".join([*head, *tail])


def comment_marker(environment: str) -> str:
    """The first line of every such comment about an environment."""
    return f"<!-- tritonstack diff {environment} -->"


def _summary(outlook: DeployOutlook) -> str:
    if outlook.refused:
        return "A deploy of this would be refused."
    if outlook.changes_nothing:
        return "A deploy of this changes nothing."
    counts = {
        "created": sum(plan.action == "create" for plan in outlook.changes.plans),
        "rolled out": sum(plan.action in ("roll-out", "two-phase") for plan in outlook.changes.plans),
        "changed in place": sum(plan.action == "change" for plan in outlook.changes.plans),
    }
    parts = [
        f"{count} {'stack' if count == 1 else 'stacks'} {what}" for what, count in counts.items() if count
    ]
    if outlook.shelves:
        parts.append(f"{sum(map(len, outlook.shelves.values()))} models put on shelves")
    return f"A deploy of this: {', '.join(parts)}."


def _plan_lines(outlook: DeployOutlook) -> Iterator[str]:
    name = outlook.workspace.words
    if outlook.models:
        yield "What changes about models:"
        yield from (f"  {words}" for words in outlook.models)
    yield f"What `tritonstack deploy {name}` does:"
    for plan in outlook.changes.plans:
        yield f"  {plan.words}"
        yield from (f"    {line}" for line in _details(outlook, plan))
    yield from (f"  {words}" for words in _other_words(outlook))
    if outlook.changes.two_phase:
        yield (
            "SageMaker refuses `cdk deploy` what needs two phases; "
            f"`tritonstack deploy {name}` goes through both."
        )
    if outlook.refused:
        yield f"`tritonstack deploy {name}` refuses this before it changes anything."


def _plan_items(plan: StackPlan, outlook: DeployOutlook) -> Iterator[str]:
    if plan.action == "nothing":
        return
    yield f"- {_marked(plan.words)}"
    for line in _details(outlook, plan):
        yield f"  - {_marked(line)}"


def _fate_words(fates: Iterable[ResourceFate]) -> Iterator[str]:
    """What becomes of resources; what every rollout makes anew is said once and in short."""
    told = [fate for fate in fates if not fate.expected]
    usual = [fate for fate in fates if fate.expected and fate.fate != "deleted"]
    if usual:
        yield f"made anew, as with every rollout: {', '.join(fate.logical_id for fate in usual)}"
    yield from (fate.words for fate in sorted(told, key=lambda fate: (not fate.refused, fate.logical_id)))


def _other_words(outlook: DeployOutlook) -> Iterator[str]:
    """What there is to tell beside stacks that are asked for."""
    for stack in outlook.changes.leftovers:
        yield f"{stack}: {leftover_words(stack)}"
    for endpoint, models in outlook.shelves.items():
        shown = ", ".join(models[:_LISTED]) + (" and more" if len(models) > _LISTED else "")
        go = "1 model goes" if len(models) == 1 else f"{len(models)} models go"
        yield f"{endpoint}: {go} on its shelf, without a change of stack: {shown}"


def _clipped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def _marked(text: str) -> str:
    """Words in which Markdown finds nothing of its own but the code that is meant."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|")


def _fence(text: str) -> str:
    """A fence that no line of the text closes."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence
