"""`tritonstack history`: show where a model's artifacts were built, promoted, deployed, and verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tritonstack.base.files import short_digest
from tritonstack.base.revisions import short_commit
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.tables import Column, FittedTable
from tritonstack.cli.selection import ModelArgument, NameOption
from tritonstack.files.records.locks import Figures
from tritonstack.operate.locks.versions import ArtifactHistory, HistoryEntry
from tritonstack.operate.status.history import history as run

_TITLES = ("digest", "target", "what", "where", "when", "who", "commit", "details")
_COLUMNS = [Column(title) for title in _TITLES]


def history(
    context: typer.Context,
    model: ModelArgument = None,
    environments: Annotated[
        list[str] | None,
        typer.Option("--env", help="An environment; can be repeated.", autocompletion=complete_deployable),
    ] = None,
    name: NameOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="Use git only; query no environment.")] = False,
) -> None:
    """Show where and when each artifact of a model was built, promoted, deployed, verified, and rolled back.

    Reads the locks in git and the events in each environment's artifact bucket. Unreachable environments are
    named; their history in git is still shown.

    With --name, the environment is a template: the history includes that instance and the environment whose
    lock it runs. An instance's events are deleted with its bucket.

    Example: tritonstack history minilm-embedding --env dev --env prod

    Example: tritonstack history minilm-embedding --env preview --name pr-123
    """
    state: Context = context.obj
    result = run(state, model, environments or (), instance=name, offline=offline)
    text = _table(result.artifacts) if result.artifacts else f"{result.model}: no history"
    state.output.result(result, text=text)


def _table(artifacts: Sequence[ArtifactHistory]) -> FittedTable:
    """Render one row per event, with the artifact's digest in its first row."""
    rows: list[tuple[str, ...]] = []
    for artifact in artifacts:
        subject = (short_digest(artifact.digest), artifact.target)
        for entry in artifact.entries:
            rows.append((*subject, *_row(entry, artifact.figures)))
            subject = ("", "")
    return FittedTable(_COLUMNS, rows)


def _row(entry: HistoryEntry, figures: Figures | None) -> tuple[str, ...]:
    commit = short_commit(entry.commit) if entry.commit else ""
    at = entry.at[:16].replace("T", " ")
    return entry.kind, entry.environment, at, entry.by, commit, _note(entry, figures)


def _note(entry: HistoryEntry, figures: Figures | None) -> str:
    if entry.kind != "built" or figures is None:
        return entry.note
    parts = [
        f"cosine ≥ {figures.min_cosine:.6f}" if figures.min_cosine is not None else "",
        f"error ≤ {figures.max_absolute_error:.1e}" if figures.max_absolute_error is not None else "",
        f"p99 {figures.p99_ms:g} ms" if figures.p99_ms is not None else "",
        entry.note,
    ]
    return ", ".join(filter(None, parts))
