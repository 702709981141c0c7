"""Render what a promotion would do, and its gates, as tables for the console and for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from tritonstack.base.files import short_digest
from tritonstack.cli.rendering.diff_text import escaped, fenced
from tritonstack.cli.rendering.tables import MARKS, Column, FittedTable
from tritonstack.records.locks import Figures, LockedArtifact
from tritonstack.workflows.promotion.results import Entry, GateResult, PromotionOutline, PromotionPlan

_CHANGES = ("artifact", "digest", "cosine", "p99", "size")
_GATES = ("gate", "artifact", "required", "measured")


def promotion_tables(plan: PromotionPlan) -> Iterator[FittedTable]:
    """Yield a table of the entries that change, and one of every gate."""
    outline = plan.outline
    if outline.decision.entries:
        rows = [_change(item) for item in outline.decision.entries]
        yield FittedTable([Column(title) for title in _CHANGES], rows)
    if outline.gates:
        gates = [(_mark(outline, gate), *_cells(gate)) for gate in outline.gates]
        yield FittedTable([Column(""), *(Column(title) for title in _GATES)], gates)


def promotion_comment(plan: PromotionPlan, lines: Iterable[str]) -> str:
    """Render for a pull request."""
    outline = plan.outline
    changes = [_change(item) for item in outline.decision.entries]
    gates = [(*_cells(gate), _result(outline, gate)) for gate in outline.gates]
    diff = fenced("\n".join(plan.lock_diff), "diff")
    return "\n".join(
        [
            f"### `tritonstack promote {outline.source} {outline.target}`",
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


def _mark(outline: PromotionOutline, gate: GateResult) -> Text:
    return MARKS["good" if gate.passed else "attention" if gate.gate in outline.overrides else "bad"]


def _result(outline: PromotionOutline, gate: GateResult) -> str:
    if gate.passed:
        return "✓ passed"
    reason = outline.overrides.get(gate.gate)
    return f"✗ failed: {gate.remedy}" if reason is None else f"overridden: {reason}"


def _change(item: Entry) -> tuple[str, ...]:
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
