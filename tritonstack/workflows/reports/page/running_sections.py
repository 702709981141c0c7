"""Sections on what runs: pending changes, timeline, rollouts, and costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tritonstack.operations.locks.histories import HistoryEntry
from tritonstack.workflows.reports.page.figures import rollout_film
from tritonstack.workflows.reports.page.markup import (
    Child,
    Markup,
    absent,
    bullets,
    chip,
    details,
    join,
    small,
    table,
    tag,
    with_code,
)
from tritonstack.workflows.reports.page.texts import commit, digest, minutes, moment, number
from tritonstack.workflows.reports.report_data import (
    DeployChanges,
    EndpointCost,
    ReportData,
    ReportedEnvironment,
)

_SHOWN_ENTRIES = 15
_KINDS = {
    "verified": "good",
    "deployed": "info",
    "refuted": "bad",
    "rolled-back": "warn",
    "abandoned": "warn",
}


def changes(data: ReportData) -> Markup:
    """Return what a deploy of each environment would change."""
    readable = [environment for environment in data.environments if not environment.invalid]
    if not readable:
        return absent("No environment was read.", "`tritonstack validate` checks their files.")
    return join(
        tag("article", tag("h3", environment.name), _changes(environment)) for environment in readable
    )


def _changes(environment: ReportedEnvironment) -> Markup:
    if environment.changes is None:
        return absent("Not compared.", f"`tritonstack report` with access to {environment.name} compares it.")
    deploy = environment.changes
    if deploy.changes_nothing:
        return tag("p", chip("up to date", "good"), " A deploy changes nothing.")
    return tag("div", *_change_parts(deploy))


def _change_parts(deploy: DeployChanges) -> Iterator[Child]:
    if deploy.rejected:
        yield tag("p", chip("rejected", "bad"), " SageMaker or CloudFormation would reject this deploy.")
    if deploy.models:
        yield bullets(deploy.models)
    for description, lines in deploy.stacks:
        yield (
            details(with_code(description), bullets(map(with_code, lines)))
            if lines
            else tag("p", with_code(description))
        )
    if deploy.others:
        yield bullets(map(with_code, deploy.others))


def timeline(data: ReportData) -> Markup:
    """Return what happened to artifacts, latest first."""
    if not data.timeline:
        return absent("Nothing is recorded.", "`tritonstack build <env>` writes the first entry.")
    shown = _entries(data.timeline[:_SHOWN_ENTRIES], "Timeline")
    rest = data.timeline[_SHOWN_ENTRIES:]
    earlier = details(f"{len(rest)} earlier entries", _entries(rest, "Earlier entries")) if rest else None
    return join((shown, earlier))


def _entries(entries: Sequence[tuple[str, HistoryEntry]], caption: str) -> Markup:
    head = ("Time (UTC)", "Event", "Environment", "Artifact", "By", "Commit", "Note")
    rows = [
        (
            tag("time", moment(entry.at), datetime=entry.at),
            chip(entry.kind.replace("-", " "), _KINDS.get(entry.kind, "")),
            entry.environment,
            join((model, " ", digest(entry.digest))),
            entry.by,
            commit(entry.commit),
            entry.note,
        )
        for model, entry in entries
    ]
    return table(caption, head, rows)


def rollouts(data: ReportData) -> Markup:
    """Return the latest rollouts of each endpoint."""
    pairs = [
        (environment.name, rollout) for environment in data.environments for rollout in environment.rollouts
    ]
    if not pairs:
        text = "No update of an endpoint was read."
        return absent(text, "CloudFormation records one when `tritonstack deploy <env>` updates an endpoint.")
    parts = []
    for name, rollout in pairs:
        kind = {"completed": "good", "in progress": "info"}.get(rollout.outcome, "bad")
        facts = f" {rollout.strategy}, {minutes(rollout.seconds)}, started {moment(rollout.started)} UTC."
        parts.append(
            tag(
                "article",
                tag("h3", f"{rollout.endpoint} ({name})"),
                tag("p", chip(rollout.outcome.partition(":")[0], kind), facts),
                small(rollout.outcome) if ":" in rollout.outcome else None,
                bullets(f"{minutes(at)}: {text}" for at, text in rollout.stages) if rollout.stages else None,
                rollout_film(rollout),
            )
        )
    note = "AWS reports requests per endpoint, not per fleet: the traffic split is the one that was planned."
    return join((tag("p", note, class_="note"), *parts))


def costs(data: ReportData) -> Markup:
    """Return the cost of each endpoint, from the prices in the environment files."""
    rows = [
        (
            f"{environment.name} / {cost.endpoint}",
            join(tag("div", line) for line in cost.machines),
            number(cost.least),
            number(cost.now),
            number(cost.most),
        )
        for environment in data.environments
        for cost in environment.costs
    ]
    if not rows:
        return absent("No environment of this report is billed.", "")
    head = ("Endpoint", "Instances", "Least", "Now", "Most")
    total = _total([cost for environment in data.environments for cost in environment.costs])
    note = "730 hours per month, in the currency of `prices`; storage and requests are not included."
    shown = [
        table("Cost per month", head, [*rows, total], numbers=3),
        tag("p", with_code(note), class_="note"),
    ]
    if any(cost.least is None for environment in data.environments for cost in environment.costs):
        shown.append(
            absent("Some instance types have no price.", "Add it to `prices` of the environment file.")
        )
    return join(shown)


def _total(costs_: list[EndpointCost]) -> tuple[Child, ...]:
    def total(name: str) -> str:
        values = [getattr(cost, name) for cost in costs_]
        return "–" if None in values else number(sum(values))

    return ("Total", "", total("least"), total("now"), total("most"))
