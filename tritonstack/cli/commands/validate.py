"""`tritonstack validate`: check all files of the project or of one environment; calls nobody unless asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from tritonstack.base.errors import FileProblem, InvalidFilesError, UsageError
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.operations.locks.checks import check_offline, lock_names
from tritonstack.operations.locks.online_checks import (
    NotCheckedError,
    Unchecked,
    UntrueLockError,
    check_online,
)
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.checks.regions import pipeline_warnings, region_warnings
from tritonstack.project.loading import (
    environment_names,
    load_workspace,
    model_names,
    template_names,
    validate_project,
)
from tritonstack.project.workspace import Workspace
from tritonstack.spec.environments.delivery import load_delivery
from tritonstack.spec.environments.environment import shared_bootstraps


def validate(
    context: typer.Context,
    environment: Annotated[
        str | None, typer.Argument(help="Check this environment only.", autocompletion=complete_deployable)
    ] = None,
    name: NameOption = None,
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
    workspaces = _workspaces(state, environment, name)
    templates = template_names(state.project) if environment is None else []
    owners = {workspace.lock_owner for workspace in workspaces}
    locks = check_offline(state.project, lock_names(state.project) if environment is None else owners)
    if locks.faults:
        raise InvalidFilesError(locks.faults)
    warnings = _warnings(state, workspaces, whole=environment is None)
    for text in warnings:
        state.output.note(f"warning: {text}")
    to_build = [str(problem) for workspace in workspaces for problem in unbuilt(workspace)]
    for text in to_build:
        state.output.note(f"to build: {text}")
    _tell(state, locks.notes)
    shared = shared_bootstraps(workspace.spec for workspace in workspaces)
    for text in shared:
        state.output.note(f"note: {text}")
    checked = _online(state, workspaces) if online else []
    names, models = [workspace.words for workspace in workspaces], model_names(state.project)
    state.output.result(
        {
            "valid": True,
            "environments": names,
            "templates": templates,
            "models": models,
            "warnings": warnings,
            "unbuilt": to_build,
            "notes": [*map(str, locks.notes), *shared],
            "checked_online": checked,
        },
        text=f"valid: environments {', '.join(names)}; "
        + (f"templates {', '.join(templates)}; " if templates else "")
        + f"models {', '.join(models)}"
        + (f"; locks are true in {', '.join(checked)}" if checked else ""),
    )


def _workspaces(state: Context, environment: str | None, name: str | None) -> list[Workspace]:
    """What is to be checked; faults of the files beside locks are told together with those of locks."""
    if name is not None:
        if environment is None:
            raise UsageError("--name needs a template", remedy="write it first: validate preview --name pr-1")
        return [state.workspace(environment, name)]
    names = environment_names(state.project) if environment is None else [environment]
    owners = lock_names(state.project) if environment is None else names
    problems = validate_project(state.project) if environment is None else _problems(state, environment)
    if problems:
        raise InvalidFilesError({*problems, *check_offline(state.project, owners).faults})
    return [load_workspace(state.project, known) for known in names]


def _warnings(state: Context, workspaces: Sequence[Workspace], *, whole: bool) -> list[str]:
    """What the regions of environments may lack, and the pipeline's if the whole project is checked."""
    found = [warning for workspace in workspaces for warning in region_warnings(workspace.environment)]
    delivery = load_delivery(state.project) if whole else None
    return [str(warning) for warning in (*found, *(pipeline_warnings(delivery) if delivery else ()))]


def _problems(state: Context, environment: str) -> list[FileProblem]:
    try:
        load_workspace(state.project, environment)
    except InvalidFilesError as error:
        return list(error.problems)
    return []


def _online(state: Context, workspaces: Sequence[Workspace]) -> list[str]:
    """The environments whose locks are true where they live; those that could not be asked are named."""
    checked, faults = [], []
    missed: list[Unchecked] = []
    for workspace in workspaces:
        name = workspace.words
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
