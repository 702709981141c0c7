"""`tritonstack history`: where each artifact of a model was built, promoted, deployed and verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.documents import closest
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.revisions import short_commit
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.operations.events import read_events
from tritonstack.operations.locks.histories import (
    ArtifactHistory,
    Happening,
    history_of,
    told_by_events,
    told_by_locks,
)
from tritonstack.operations.locks.versions import lock_history
from tritonstack.project.loading import (
    environment_names,
    find_template,
    model_names,
    require_free,
    template_names,
)
from tritonstack.records.locks import Figures


def history(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The model.")],
    environments: Annotated[
        list[str] | None, typer.Option("--env", help="An environment; several times for several.")
    ] = None,
    name: NameOption = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no environment: tell what git knows alone.")
    ] = False,
) -> None:
    """Tell of each artifact of a model where and when it was built, promoted, deployed, verified, given up.

    From the locks as git knows them, and from the events that each environment keeps in its artifact bucket.
    Environments that cannot be reached are named; what git knows of them is told all the same.

    With --name, the environment is a template: what happened in that instance is told beside what happened
    in the environment whose lock it runs, as long as the instance stands; its events go with its bucket.

    Example: tritonstack history minilm-embedding --env dev --env prod

    Example: tritonstack history minilm-embedding --env preview --name pr-123
    """
    state: Context = context.obj
    subjects = _subjects(state, environments or [], name)
    told, gaps = _from_git(state, [environment for environment, one in subjects if one is None], model)
    unreached = [] if offline else _ask(state, subjects, model, told)
    for text in (*gaps, *unreached):
        state.output.note(text)
    artifacts = history_of(told)
    if not artifacts:
        _require_known(state, model)
    state.output.result(
        {
            "model": model,
            "environments": [one or environment for environment, one in subjects],
            "incomplete": [*gaps, *unreached],
            "artifacts": [artifact.facts() for artifact in artifacts],
        },
        text=_listing(artifacts) if artifacts else f"{model}: nothing has happened to it yet",
    )


_Subject = tuple[str, str | None]
"""An environment; or a template and the name of an instance."""


def _subjects(state: Context, wanted: Sequence[str], name: str | None) -> list[_Subject]:
    """Whom to ask; of an instance, the environment whose lock it runs as well."""
    if name is None:
        return [(environment, None) for environment in _environments(state, wanted)]
    if len(wanted) != 1:
        raise UsageError("--name is of one template", remedy="write --env <template> --name <name>")
    require_free(state.project, name)
    template = find_template(state.project, wanted[0])
    return [(template.head.locks, None), (template.name, name)]


def _environments(state: Context, wanted: Sequence[str]) -> list[str]:
    known = environment_names(state.project)
    for name in wanted:
        if name in template_names(state.project):
            raise UsageError(
                f"{name!r} is a template: what happens, happens in its instances",
                remedy="add --name <name>, for example --name pr-123",
            )
        if name not in known:
            suggestion = closest(name, known)
            raise UsageError(
                f"there is no environment {name!r}",
                remedy=f"did you mean '{suggestion}'?" if suggestion else f"there are: {', '.join(known)}",
            )
    return [name for name in known if not wanted or name in wanted]


def _require_known(state: Context, model: str) -> None:
    known = model_names(state.project)
    if model not in known:
        suggestion = closest(model, known)
        raise UsageError(
            f"there is no model {model!r}, and no lock or event tells of one",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"there are: {', '.join(known)}",
        )


def _from_git(state: Context, names: Sequence[str], model: str) -> tuple[list[Happening], list[str]]:
    told: list[Happening] = []
    gaps: dict[str, None] = {}
    for name in names:
        lock = lock_history(state.project, name)
        told += told_by_locks(name, model, lock.versions)
        if lock.gap:
            gaps[f"git may not know all: {lock.gap}"] = None
    return told, list(gaps)


def _ask(state: Context, subjects: Sequence[_Subject], model: str, told: list[Happening]) -> list[str]:
    """Add what events tell; gives the environments that could not be asked, and why."""
    unreached = []
    for environment, name in subjects:
        words = name or environment
        try:
            spec = state.workspace(environment, name).spec
            with state.output.step(f"asking {words}"):
                told += told_by_events(model, read_events(state.cloud(spec), spec.artifact_bucket))
        except (BotoCoreError, ClientError) as error:
            unreached.append(f"{words} was not asked: AWS answered: {error}")
        except TritonstackError as error:
            unreached.append(f"{words} was not asked: {error.message}")
    return unreached


def _listing(artifacts: Sequence[ArtifactHistory]) -> str:
    """A row for what happened, each artifact's digest before the first of its own."""
    rows: list[tuple[str, ...]] = [("digest", "target", "what", "where", "when", "who", "commit", "")]
    for artifact in artifacts:
        subject = (artifact.digest[:12], artifact.target)
        for happening in artifact.happenings:
            rows.append((*subject, *_row(happening, artifact.figures)))
            subject = ("", "")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(happening: Happening, figures: Figures | None) -> tuple[str, ...]:
    return (
        happening.kind,
        happening.environment,
        happening.at[:16].replace("T", " "),
        happening.by,
        _commit(happening.commit),
        _words(happening, figures),
    )


def _commit(commit: str | None) -> str:
    return short_commit(commit) if commit else ""


def _words(happening: Happening, figures: Figures | None) -> str:
    if happening.kind != "built" or figures is None:
        return happening.note
    parts = [
        f"cosine ≥ {figures.min_cosine:.6f}" if figures.min_cosine is not None else "",
        f"error ≤ {figures.max_absolute_error:.1e}" if figures.max_absolute_error is not None else "",
        f"p99 {figures.p99_ms:g} ms" if figures.p99_ms is not None else "",
        happening.note,
    ]
    return ", ".join(filter(None, parts))
