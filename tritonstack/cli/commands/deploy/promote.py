"""`tritonstack promote`: copy artifacts and images from one environment to the next, by digest."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from tritonstack.base.errors import shown_path
from tritonstack.base.files import short_digest
from tritonstack.cli.completion import complete_environment
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.diff_text import escaped, fenced
from tritonstack.cli.rendering.tables import MARKS, Column, FittedTable
from tritonstack.cli.rendering.text import HangingText
from tritonstack.cli.selection import BootstrapOption, ModelsArgument
from tritonstack.files.records.lock_writing import LockChange
from tritonstack.files.records.locks import Figures, LockedArtifact
from tritonstack.operate.promote.gates import GateResult
from tritonstack.operate.promote.promote import PromotionRequest, parse_overrides, plan_promotion
from tritonstack.operate.promote.promote import promote as run
from tritonstack.operate.promote.results import Promotion, PromotionFacts, PromotionPlan

_CHANGES = ("artifact", "digest", "cosine", "p99", "size")
_GATES = ("gate", "artifact", "required", "measured")


def promotion_tables(plan: PromotionPlan) -> Iterator[FittedTable]:
    """Yield a table of the entries that change, and one of every gate."""
    if plan.decision.entries:
        rows = [_change(item) for item in plan.decision.entries]
        yield FittedTable([Column(title) for title in _CHANGES], rows)
    if plan.gates:
        gates = [(_mark(gate), *_cells(gate)) for gate in plan.gates]
        yield FittedTable([Column(""), *(Column(title) for title in _GATES)], gates)


def promotion_comment(plan: PromotionPlan, lines: Iterable[str]) -> str:
    """Render for a pull request."""
    changes = [_change(item) for item in plan.decision.entries]
    gates = [(*_cells(gate), _result(gate)) for gate in plan.gates]
    diff = fenced(plan.lock_diff, "diff")
    return "\n".join(
        [
            f"### `tritonstack promote {plan.source} {plan.target}`",
            "",
            *_markdown_table(_CHANGES, changes),
            *_markdown_table((*_GATES, "result"), gates),
            *(f"- {escaped(line)}" for line in lines),
            "",
            *("<details><summary>The lock's diff</summary>", "", diff, "", "</details>"),
        ]
    )


def _markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    lines = [titles, ["---"] * len(titles), *([escaped(cell) for cell in row] for row in rows)]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _cells(gate: GateResult) -> tuple[str, str, str, str]:
    return gate.gate, gate.subject, gate.required, gate.measured


def _mark(gate: GateResult) -> Text:
    return MARKS["good" if gate.passed else "bad" if gate.overridden is None else "attention"]


def _result(gate: GateResult) -> str:
    if gate.passed:
        return "✓ passed"
    return f"✗ failed: {gate.remedy}" if gate.overridden is None else f"overridden: {gate.overridden}"


def _change(item: LockChange) -> tuple[str, ...]:
    """Return an entry's values, old → new."""
    old, new = item.seen, item.entry
    name = f"{item.name} for {item.key}"
    digests = _arrow(short_digest(old.digest) if old else "", short_digest(new.digest))
    if not isinstance(new, LockedArtifact):
        return f"image {name}", digests, "", "", ""
    before = old if isinstance(old, LockedArtifact) else None
    figures, earlier = new.figures or Figures(), (before.figures if before else None) or Figures()
    return (
        name,
        digests,
        _arrow(_number(earlier.min_cosine, "{:.6f}"), _number(figures.min_cosine, "{:.6f}")),
        _arrow(_number(earlier.p99_ms, "{:.1f} ms"), _number(figures.p99_ms, "{:.1f} ms")),
        _arrow(_megabytes(before.archive_bytes if before else None), _megabytes(new.archive_bytes)),
    )


def _arrow(old: str, new: str) -> str:
    return new if old in ("", new) else f"{old} → {new}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _megabytes(size: int | None) -> str:
    return "" if not size else f"{size / 1e6:.1f} MB"


def promote(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help="The environment to promote from.", autocompletion=complete_environment)
    ],
    target: Annotated[
        str, typer.Argument(help="The environment to promote to.", autocompletion=complete_environment)
    ],
    models: ModelsArgument = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be copied and changed; change nothing.")
    ] = False,
    override_gate: Annotated[
        list[str] | None,
        typer.Option(metavar="GATE=REASON", help="Override a failed gate; the reason is recorded."),
    ] = None,
    from_profile: Annotated[str | None, typer.Option(help="AWS profile for the source account.")] = None,
    to_profile: Annotated[str | None, typer.Option(help="AWS profile for the target account.")] = None,
    bootstrap: BootstrapOption = False,
    full: Annotated[bool, typer.Option("--full", help="Print the lock's diff, with --dry-run.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the text of a pull request, with --dry-run.")
    ] = False,
) -> None:
    """Copy an environment's artifacts to the next environment's account, and add them to its lock.

    Requires that the gates of `promotion:` in the target's file pass; --dry-run shows each of them with the
    required and the measured value. Deploys no endpoint: commit the lock, then run `tritonstack deploy`. An
    interrupted promotion resumes when rerun.

    Example: tritonstack promote dev prod --dry-run
    """
    state: Context = context.obj
    overrides = parse_overrides(override_gate or ())
    request = PromotionRequest(source, target, models or (), overrides, from_profile, to_profile)
    if not dry_run:
        promotion = run(state, request, bootstrap=bootstrap)
        state.output.result(promotion, text="\n".join(_lines(promotion)))
        return
    plan = plan_promotion(state, request)
    lines = _plan_lines(plan)
    if markdown:
        text = promotion_comment(plan, lines)
        state.output.result(plan, text=text)
    else:
        failed = [str(gate) for gate in plan.gates if not gate.passed]
        shown = [*lines, *failed, *([plan.lock_diff] if full else ())]
        state.output.result(plan, text=Group(*promotion_tables(plan), HangingText(Text("\n".join(shown)))))
    if plan.failed:
        raise typer.Exit(1)
    state.output.suggest(plan.command)


def _plan_lines(plan: PromotionPlan) -> list[str]:
    decision = plan.decision
    return [
        *(f"would copy {item.describe()}: {size / 1e6:.1f} MB" for item, size in plan.sizes),
        *(f"would promote {item.describe()}" for item in decision.entries),
        *_remarks(plan),
        *(f"up to date: {item.describe()}" for item in decision.same),
        *_skipped_lines(plan),
        *([f"would deploy the foundation of {plan.target} first"] if plan.needs_foundation else []),
    ]


def _remarks(promotion: PromotionFacts) -> list[str]:
    entries = promotion.decision.entries
    return [line for item in entries for line in (*item.describe_conflicting(), *item.describe_bounds())]


def _skipped_lines(promotion: PromotionFacts) -> list[str]:
    name = promotion.target
    built_in_target = [f"{model}: {name} uses its own build" for model in promotion.decision.built_in_target]
    return built_in_target + [
        f"{item.describe()}: skipped; {back.by} rolled it back in {name} at {back.at}; "
        "name the model to promote it anyway"
        for item in promotion.decision.rolled_back
        if item.seen and (back := item.seen.rolled_back)
    ]


def _lines(promotion: Promotion) -> list[str]:
    decision = promotion.decision
    source, target, file = promotion.source, promotion.target, shown_path(promotion.lock)
    lines = [f"up to date: {item.describe()}" for item in decision.same] + _skipped_lines(promotion)
    lines += [f"promoted {item.describe()} from {source} to {target}" for item in decision.entries]
    lines += _remarks(promotion)
    lines += [f"overridden: {gate}" for gate in promotion.gates if gate.overridden]
    if not decision.entries:
        return [*lines, f"{file} is up to date"]
    names = ", ".join(item.name for item in decision.entries)
    return [
        *lines,
        "next: open a pull request with the lock, for example",
        f"  git switch -c promote-to-{target}",
        f"  {shlex.join(['git', 'add', file])}",
        f'  git commit -m "Promote {names} from {source} to {target}"',
        f"after the merge: `tritonstack deploy {target}` and `tritonstack verify {target}`",
    ]
