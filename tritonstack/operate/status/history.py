"""Read the history of a model's artifacts from locks and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from tritonstack.base.error_kinds import CommandLineError, UnknownNameError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import Key
from tritonstack.base.yaml import closest
from tritonstack.files.loading import ProjectFiles, chosen_model, require_free
from tritonstack.files.project.names import model_names, template_names
from tritonstack.operate.deploy.preflight import chosen_environments
from tritonstack.operate.locks.versions import (
    ArtifactHistory,
    HistoryEntry,
    history_from_events,
    history_from_locks,
    history_of,
    lock_history,
)
from tritonstack.operate.shared.aws import AWS_ERRORS
from tritonstack.operate.shared.events import read_events
from tritonstack.operate.shared.session import Session


@dataclass(frozen=True)
class ModelHistory:
    """What happened to the artifacts of a model."""

    model: str
    environments: tuple[str, ...]
    artifacts: tuple[ArtifactHistory, ...]
    gaps: Annotated[tuple[str, ...], Key("incomplete")]
    """Why the history may be incomplete."""


def history(
    session: Session,
    model: str | None,
    environments: Sequence[str] = (),
    *,
    instance: str | None = None,
    offline: bool = False,
) -> ModelHistory:
    """Read the history of a model from git and, unless `offline`, from the events of environments.

    Without a name, it is the project's only model.

    An environment that is unreachable is a gap of the result and does not stop the others.
    """
    model = chosen_model(session.project, model)
    subjects = _subjects(session, environments, instance)
    entries, gaps = _from_git(
        session, [environment for environment, instance_name in subjects if instance_name is None], model
    )
    unreached = [] if offline else _ask(session, subjects, model, entries)
    for text in (*gaps, *unreached):
        session.reporter.note(text)
    artifacts = history_of(entries)
    if not artifacts:
        _require_known(session, model)
    names = tuple(instance_name or environment for environment, instance_name in subjects)
    return ModelHistory(model, names, tuple(artifacts), (*gaps, *unreached))


_Subject = tuple[str, str | None]
"""An environment; or a template and the name of an instance."""


def _subjects(session: Session, names: Sequence[str], name: str | None) -> list[_Subject]:
    """Return the environments to ask; an instance is preceded by the environment whose lock it runs."""
    if name is None:
        return [(environment, None) for environment in _environments(session, names)]
    if len(names) != 1:
        raise CommandLineError("--name requires one template", remedy="pass --env <template> --name <name>")
    require_free(session.project, name)
    template = ProjectFiles(session.project).template(names[0])
    return [(template.head.locks, None), (template.name, name)]


def _environments(session: Session, names: Sequence[str]) -> list[str]:
    for name in names:
        if name in template_names(session.project):
            raise CommandLineError(
                f"{name!r} is a template, which has no history of its own",
                remedy="add --name <name>, for example --name pr-123",
            )
    return chosen_environments(session.project, names)


def _require_known(session: Session, model: str) -> None:
    models = model_names(session.project)
    if model not in models:
        suggestion = closest(model, models)
        raise UnknownNameError(
            f"unknown model {model!r}; no lock or event names it",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"available: {', '.join(models)}",
        )


def _from_git(session: Session, names: Sequence[str], model: str) -> tuple[list[HistoryEntry], list[str]]:
    entries: list[HistoryEntry] = []
    gaps: dict[str, None] = {}
    for name in names:
        lock = lock_history(session.project, name)
        entries += history_from_locks(name, model, lock.versions)
        if lock.gap:
            gaps[f"the git history may be incomplete: {lock.gap}"] = None
    return entries, list(gaps)


def _ask(
    session: Session, subjects: Sequence[_Subject], model: str, entries: list[HistoryEntry]
) -> list[str]:
    """Add what events record; return why environments could not be asked."""
    unreached = []
    for environment, name in subjects:
        arguments = name or environment
        try:
            spec = session.workspace(environment, name).spec
            with session.reporter.step(f"reading events of {arguments}"):
                entries += history_from_events(model, read_events(session.cloud(spec), spec.artifact_bucket))
        except AWS_ERRORS as error:
            unreached.append(f"{arguments} was not read: AWS error: {error}")
        except TritonstackError as error:
            unreached.append(f"{arguments} was not read: {error.message}")
    return unreached
