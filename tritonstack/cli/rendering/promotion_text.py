"""Render what a promotion would do, and its gates, as tables for the console and for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from tritonstack.base.files import short_digest
from tritonstack.cli.rendering.diff_text import escaped, fenced
from tritonstack.cli.rendering.tables import MARKS, Column, FittedTable
from tritonstack.files.records.locks import Figures, LockedArtifact
from tritonstack.operate.promote.results import GateResult, LockChange, PromotionPlan

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
