"""`tritonstack validate`: check all files of the project or of one environment; calls nobody unless asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from catalog.errors import FileProblem, InvalidFilesError
from catalog.fitness import unbuilt
from catalog.loading import environment_names, load_workspace, model_names, validate_project
from cli.context import Context
from operations.lock_checks import check_offline
from operations.online_checks import NotCheckedError, Unchecked, UntrueLockError, check_online


def validate(
    context: typer.Context,
    environment: Annotated[str | None, typer.Argument(help="Check this environment only.")] = None,
    online: Annotated[
        bool,
        typer.Option("--online", help="Ask buckets and registries, too, whether the locks are true."),
    ] = False,
) -> None:
    """Check the project's files: models, environments and locks, each fault with file, line and remedy.

    A lock has to be as `tritonstack` wrote it, and to agree with the models, with the manifests on this
    machine, with the other locks, and with what git knows of where its artifacts were promoted from. With
    --online, the archives, manifests and images that it names are looked at, as far as there is access.

    Example: tritonstack validate dev --online
    """
    state: Context = context.obj
    names = environment_names(state.project) if environment is None else [environment]
    problems = _problems(state, environment)
    locks = check_offline(state.project, names)
    if problems or locks.faults:
        raise InvalidFilesError({*problems, *locks.faults})
    to_build = [str(problem) for name in names for problem in unbuilt(load_workspace(state.project, name))]
    for text in to_build:
        state.output.note(f"to build: {text}")
    _tell(state, locks.notes)
    checked = _online(state, names) if online else []
    models = model_names(state.project)
    state.output.result(
        {
            "valid": True,
            "environments": names,
            "models": models,
            "unbuilt": to_build,
            "notes": [str(note) for note in locks.notes],
            "checked_online": checked,
        },
        text=f"valid: environments {', '.join(names)}; models {', '.join(models)}"
        + (f"; locks are true in {', '.join(checked)}" if checked else ""),
    )


def _problems(state: Context, environment: str | None) -> Sequence[FileProblem]:
    """All that is wrong with the files beside the locks."""
    if environment is None:
        return validate_project(state.project)
    try:
        load_workspace(state.project, environment)
    except InvalidFilesError as error:
        return error.problems
    return ()


def _online(state: Context, names: Sequence[str]) -> list[str]:
    """The environments whose locks are true where they live; those that could not be asked are named."""
    checked, faults = [], []
    missed: list[Unchecked] = []
    for name in names:
        workspace = load_workspace(state.project, name)
        with state.output.step(f"asking {name}"):
            found = check_online(workspace, partial(state.cloud, workspace.spec))
        if isinstance(found, Unchecked):
            missed.append(found)
            continue
        checked.append(name)
        faults += found.faults
        _tell(state, found.notes)
    for item in missed:
        state.output.note(str(item))
    if faults:
        raise UntrueLockError(faults)
    if not checked:
        raise NotCheckedError(
            "\n".join(map(str, missed)) or "there is no environment to ask",
            remedy="log in to its account, or deploy it first; without --online nobody is asked",
        )
    return checked


def _tell(state: Context, notes: Sequence[FileProblem]) -> None:
    for note in notes:
        state.output.note(f"note: {note}")
