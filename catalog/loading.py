"""Reads an environment and everything that it refers to, and holds it all against each other.

Each check gives the file and line where the contradiction stands; nothing here calls AWS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from catalog.composition import composition_problems
from catalog.documents import Document, RecordT, closest, load_document
from catalog.environments import EnvironmentSpec
from catalog.errors import FileProblem, InvalidFilesError, UsageError, shown_path
from catalog.fitness import environment_problems
from catalog.locks import Lock, load_lock
from catalog.model_hashes import missing_files, model_hash
from catalog.models import ModelSpec
from catalog.project import Project
from catalog.workspace import Workspace

LOCK_SUFFIX = ".lock.yaml"


def environment_names(project: Project) -> list[str]:
    """The environments of a project, sorted."""
    files = project.environments_dir.glob("*.yaml")
    return sorted(file.stem for file in files if not file.name.endswith(LOCK_SUFFIX))


def model_names(project: Project) -> list[str]:
    """The models of a project, sorted."""
    return sorted(file.parent.name for file in project.models_dir.glob("*/model.yaml"))


def load_workspace(project: Project, environment: str) -> Workspace:
    """Read one environment and all that it refers to; every fault in every file is reported at once."""
    _require_known(
        environment, environment_names(project), what="environment", where=project.environments_dir
    )
    problems: list[FileProblem] = []
    document = _try_load(project.environment_file(environment), EnvironmentSpec, problems)
    lock = _try_lock(project.lock_file(environment), problems)
    if document is None or lock is None:
        raise InvalidFilesError(problems)
    served = sorted({model for endpoint in document.record.endpoints.values() for model in endpoint.models})
    models = _load_models(project, served, problems)
    hashes = {} if problems else {name: model_hash(name, models) for name in models}
    workspace = Workspace(project, document, lock, models, hashes)
    problems += dict.fromkeys(_contradictions(workspace))
    if problems:
        raise InvalidFilesError(problems)
    return workspace


def load_model(project: Project, name: str) -> Document[ModelSpec]:
    """Read one model."""
    _require_known(name, model_names(project), what="model", where=project.models_dir)
    document = load_document(project.model_file(name), ModelSpec)
    problems = list(_misnamed(document, name))
    if problems:
        raise InvalidFilesError(problems)
    return document


def validate_project(project: Project) -> list[FileProblem]:
    """All faults of all files of a project."""
    problems: set[FileProblem] = set()
    for name in model_names(project):
        try:
            load_model(project, name)
        except InvalidFilesError as error:
            problems.update(error.problems)
    workspaces = []
    for name in environment_names(project):
        try:
            workspaces.append(load_workspace(project, name))
        except InvalidFilesError as error:
            problems.update(error.problems)
    problems.update(_collisions(workspaces))
    return sorted(problems, key=str)


def load_models(project: Project, name: str) -> dict[str, Document[ModelSpec]]:
    """Read one model and all that it is made of."""
    document = load_model(project, name)
    problems: list[FileProblem] = []
    models = _load_models(project, [name], problems)
    if problems:
        raise InvalidFilesError(problems)
    return {**models, name: document}


def _load_models(
    project: Project, names: Iterable[str], problems: list[FileProblem]
) -> dict[str, Document[ModelSpec]]:
    """The models of these names and all that they are made of; a name that is no model's is left out."""
    known, models, waiting = set(model_names(project)), {}, sorted(names)
    while waiting:
        name = waiting.pop(0)
        if name in models or name not in known:
            continue
        if model := _try_load(project.model_file(name), ModelSpec, problems):
            models[name] = model
            problems += missing_files(model)
            waiting += model.record.members
    problems += composition_problems(models, known)
    return dict(sorted(models.items()))


def _require_known(name: str, known: list[str], *, what: str, where: Path) -> None:
    if name in known:
        return
    suggestion = closest(name, known)
    listing = f"there are: {', '.join(known)}" if known else f"{where} holds none"
    raise UsageError(
        f"there is no {what} {name!r}", remedy=f"did you mean '{suggestion}'?" if suggestion else listing
    )


def _try_load(
    file: Path, record_type: type[RecordT], problems: list[FileProblem]
) -> Document[RecordT] | None:
    try:
        return load_document(file, record_type)
    except InvalidFilesError as error:
        problems += error.problems
        return None


def _try_lock(file: Path, problems: list[FileProblem]) -> Document[Lock] | None:
    try:
        return load_lock(file)
    except InvalidFilesError as error:
        problems += error.problems
        return None


def _contradictions(workspace: Workspace) -> Iterator[FileProblem]:
    document, spec = workspace.environment, workspace.spec
    yield from _misnamed(document, document.file.stem)
    for name, model in workspace.models.items():
        yield from _misnamed(model, name)
    known = model_names(workspace.project)
    for name in spec.endpoints:
        for served in dict.fromkeys(workspace.serves(name)):
            if served.model not in known:
                suggestion = closest(served.model, known)
                yield document.problem(
                    served.place,
                    f"there is no model {served.model!r}",
                    remedy=f"did you mean '{suggestion}'?"
                    if suggestion
                    else f"models/ holds: {', '.join(known) or 'none'}",
                )
        yield from environment_problems(workspace, name)


def _misnamed(
    document: Document[EnvironmentSpec] | Document[ModelSpec], expected: str
) -> Iterator[FileProblem]:
    if document.record.name != expected:
        yield document.problem(
            ("name",),
            f"the name is {document.record.name!r}, but the file's place says {expected!r}",
            remedy=f"write `name: {expected}`, or rename the file",
        )


def _collisions(workspaces: Iterable[Workspace]) -> Iterator[FileProblem]:
    """Endpoints of two environments in one account and region whose full names are the same."""
    taken: dict[tuple[str, str, str], Path] = {}
    for workspace in workspaces:
        spec = workspace.spec
        for name in spec.endpoints:
            full = spec.endpoint_name(name)
            first = taken.setdefault((spec.account, spec.region, full), workspace.environment.file)
            if first != workspace.environment.file:
                yield workspace.environment.problem(
                    ("endpoints", name),
                    f"the endpoint would be named {full!r}, and so would one of {shown_path(first)}",
                    remedy="rename one of the two, or choose another name_prefix",
                )
