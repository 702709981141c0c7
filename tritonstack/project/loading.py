"""Load an environment with everything it refers to, and cross-check the files.

Errors name file and line; nothing here calls AWS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tritonstack.base.errors import FileViolation, InvalidFilesError, UsageError, shown_path
from tritonstack.base.naming import check_name
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document, RecordT, closest, load_document, parse_document, read_text
from tritonstack.project.checks.compatibility import environment_violations
from tritonstack.project.checks.delivery import delivery_violations
from tritonstack.project.checks.ensembles import composition_violations
from tritonstack.project.checks.regions import region_violations
from tritonstack.project.files.contents import content_violations, source_violations
from tritonstack.project.files.model_hashes import model_hash
from tritonstack.project.names import (
    environment_names,
    has_model,
    ignored_files,
    model_names,
    template_names,
)
from tritonstack.project.workspace import EnvironmentFiles, Workspace
from tritonstack.records.locks import Lock, load_lock
from tritonstack.spec.environments.delivery import load_delivery
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.spec.environments.templates import HEAD, Instance, Template, instance_document, load_template
from tritonstack.spec.models.model import ModelSpec

__all__ = [
    "chosen_model",
    "environment_names",
    "find_template",
    "load_instance",
    "load_model",
    "load_models",
    "load_workspace",
    "model_names",
    "require_free",
    "sample_instance",
    "template_names",
    "validate_project",
]


def load_workspace(project: Project, environment: str, *, text: str | None = None) -> Workspace:
    """Load an environment with everything it refers to; report all errors of all files at once.

    `text` is the content of its file if that is not saved yet.
    """
    if environment in template_names(project):
        raise UsageError(
            f"{environment!r} is a template, not an environment",
            remedy="add --name <name>, for example --name pr-123",
            code="TS901",
        )
    if text is None:
        known = environment_names(project)
        _require_known(environment, known, kind="environment", folder=project.environments_dir)
    violations: list[FileViolation] = []
    document = _try_load(project.environment_file(environment), EnvironmentSpec, violations, text=text)
    return _whole(project, document, environment, violations)


def find_template(project: Project, name: str) -> Template:
    """Load a template, before any instance is filled in."""
    if name in environment_names(project):
        raise UsageError(
            f"{name!r} is an environment, not a template",
            remedy="omit --name; templates are files named <name>.template.yaml",
            code="TS901",
        )
    _require_known(name, template_names(project), kind="template", folder=project.environments_dir)
    return load_template(project.template_file(name), name)


def load_instance(project: Project, instance: Instance) -> Workspace:
    """Load an instance of a template with everything it refers to, like `load_workspace`."""
    template = find_template(project, instance.template)
    require_free(project, instance.name)
    violations: list[FileViolation] = []
    document: Document[EnvironmentSpec] | None = None
    try:
        document = instance_document(template, instance)
    except InvalidFilesError as error:
        violations += error.violations
    known = environment_names(project)
    if template.head.locks not in known:
        violations.append(
            template.violation(
                (HEAD, "locks"),
                f"unknown environment {template.head.locks!r}",
                remedy=f"available: {', '.join(known) or 'none'}",
                code="TS201",
            )
        )
    return _whole(project, document, template.head.locks, violations, instance)


def _whole(
    project: Project,
    document: Document[EnvironmentSpec] | None,
    lock_owner: str,
    violations: list[FileViolation],
    instance: Instance | None = None,
) -> Workspace:
    """Return an environment with everything it refers to; raise InvalidFilesError for errors."""
    lock = _try_lock(project.lock_file(lock_owner), violations)
    if document is None:
        raise InvalidFilesError(violations)
    served = sorted({model for endpoint in document.record.endpoints.values() for model in endpoint.models})
    models = _load_models(project, served, violations)
    hashes = {name: model_hash(name, models) for name in _valid_models(project, models, violations)}
    files = EnvironmentFiles(project, document, lock, models, instance)
    violations += dict.fromkeys(_contradictions(files, hashes))
    if violations:
        raise InvalidFilesError(violations)
    return Workspace(project, document, lock, models, instance, hashes=hashes)


def _valid_models(
    project: Project, models: Mapping[str, Document[ModelSpec]], violations: Iterable[FileViolation]
) -> list[str]:
    """Return the models whose files, and those of all their members, have no violation."""
    invalid = {
        violation.file.relative_to(project.models_dir).parts[0]
        for violation in violations
        if violation.file.is_relative_to(project.models_dir)
    }

    def is_valid(name: str) -> bool:
        # Circles have violations themselves, so this ends.
        return name in models and name not in invalid and all(map(is_valid, models[name].record.members))

    return [name for name in models if is_valid(name)]


def require_free(project: Project, name: str) -> None:
    """Reject an instance name that belongs to an environment of the project."""
    try:
        check_name(name)
    except ValueError as error:
        text, _, remedy = str(error).partition("; ")
        raise UsageError(f"--name: {text}", remedy=remedy, code="TS901") from None
    if name in (*environment_names(project), *template_names(project)):
        raise UsageError(
            f"environments/ already has a file for {name!r}, so no instance can have that name",
            remedy="choose another --name",
            code="TS204",
        )


def load_model(project: Project, name: str) -> Document[ModelSpec]:
    """Load one model."""
    if not has_model(project, name):
        _require_known(name, model_names(project), kind="model", folder=project.models_dir)
    document = load_document(project.model_file(name), ModelSpec)
    violations = list(_misnamed(document, name))
    if violations:
        raise InvalidFilesError(violations)
    return document


def validate_project(project: Project) -> list[FileViolation]:
    """Return all errors in all files of a project."""
    violations = set(ignored_files(project))
    for name in model_names(project):
        try:
            document = load_model(project, name)
            violations.update(content_violations(document), source_violations(document))
        except InvalidFilesError as error:
            violations.update(error.violations)
    workspaces = []
    for name in environment_names(project):
        try:
            workspaces.append(load_workspace(project, name))
        except InvalidFilesError as error:
            violations.update(error.violations)
    samples = []
    for name in template_names(project):
        try:
            samples.append(load_instance(project, sample_instance(name)))
        except InvalidFilesError as error:
            violations.update(error.violations)
    violations.update(_collisions(workspaces))
    violations.update(_delivery_violations(project, workspaces, samples))
    return sorted(violations, key=str)


def sample_instance(template: str, name: str = "sample") -> Instance:
    """Return an instance with the template's defaults, for checks and names."""
    return Instance(template, name, "somebody", "2000-01-01T00:00:00Z", {})


def _delivery_violations(
    project: Project, workspaces: Iterable[Workspace], samples: Iterable[Workspace]
) -> Iterator[FileViolation]:
    try:
        document = load_delivery(project)
    except InvalidFilesError as error:
        yield from error.violations
        return
    if document is None:
        return
    environments = dict.fromkeys(environment_names(project)) | {
        workspace.spec.name: workspace.spec for workspace in workspaces
    }
    templates = dict.fromkeys(template_names(project)) | {
        sample.instance.template: sample.spec for sample in samples if sample.instance
    }
    yield from delivery_violations(document, environments, templates)


def load_models(project: Project, name: str) -> dict[str, Document[ModelSpec]]:
    """Load a model and all its members."""
    document = load_model(project, name)
    violations: list[FileViolation] = []
    models = _load_models(project, [name], violations)
    if violations:
        raise InvalidFilesError(violations)
    return {**models, name: document}


def _load_models(
    project: Project, names: Iterable[str], violations: list[FileViolation]
) -> dict[str, Document[ModelSpec]]:
    """Load models and all their members; unknown names are omitted."""
    known, models, waiting = set(model_names(project)), {}, sorted(names)
    while waiting:
        name = waiting.pop(0)
        if name in models or name not in known:
            continue
        if model := _try_load(project.model_file(name), ModelSpec, violations):
            models[name] = model
            violations += content_violations(model)
            waiting += model.record.members
    violations += composition_violations(models, known)
    return dict(sorted(models.items()))


def _require_known(name: str, known: list[str], *, kind: str, folder: Path) -> None:
    if name in known:
        return
    suggestion = closest(name, known)
    listing = f"available: {', '.join(known)}" if known else f"{folder} has none"
    raise UsageError(
        f"unknown {kind} {name!r}",
        remedy=f"did you mean '{suggestion}'?" if suggestion else listing,
        code="TS903",
    )


def _try_load(
    file: Path, record_type: type[RecordT], violations: list[FileViolation], *, text: str | None = None
) -> Document[RecordT] | None:
    try:
        return parse_document(read_text(file) if text is None else text, file, record_type)
    except InvalidFilesError as error:
        violations += error.violations
        return None


def _try_lock(file: Path, violations: list[FileViolation]) -> Document[Lock]:
    """Load a lock; an invalid one counts as empty for the checks of the other files."""
    try:
        return load_lock(file)
    except InvalidFilesError as error:
        violations += error.violations
        return Document(Lock(), file, {})


def _contradictions(workspace: EnvironmentFiles, hashes: Mapping[str, str]) -> Iterator[FileViolation]:
    document, spec = workspace.environment, workspace.spec
    if workspace.instance is None:
        yield from _misnamed(document, document.file.stem)
    for name, model in workspace.models.items():
        yield from _misnamed(model, name)
    yield from region_violations(document)
    yield from _promotion_source(workspace)
    known = model_names(workspace.project)
    for name in spec.endpoints:
        for served in dict.fromkeys(workspace.serves(name)):
            if served.model not in known:
                suggestion = closest(served.model, known)
                yield document.violation(
                    served.place,
                    f"unknown model {served.model!r}",
                    remedy=f"did you mean '{suggestion}'?"
                    if suggestion
                    else f"available in models/: {', '.join(known) or 'none'}",
                    code="TS201",
                )
        yield from environment_violations(workspace, name, hashes)


def _promotion_source(workspace: EnvironmentFiles) -> Iterator[FileViolation]:
    """Check that an environment is promoted from another environment of the project."""
    document, promotion = workspace.environment, workspace.spec.promotion
    if promotion is None:
        return
    place = ("promotion", "source")
    others = [name for name in environment_names(workspace.project) if name != workspace.spec.name]
    if promotion.source == workspace.spec.name:
        yield document.violation(
            place,
            f"{promotion.source!r} is this environment",
            remedy=f"name another environment: {', '.join(others) or 'none exists'}",
            code="TS418",
        )
    elif promotion.source not in others:
        suggestion, listing = closest(promotion.source, others), ", ".join(others) or "none"
        yield document.violation(
            place,
            f"unknown environment {promotion.source!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"available: {listing}",
            code="TS201",
        )


def _misnamed(
    document: Document[EnvironmentSpec] | Document[ModelSpec], expected: str
) -> Iterator[FileViolation]:
    if document.record.name != expected:
        yield document.violation(
            ("name",),
            f"the name is {document.record.name!r}, expected {expected!r} (from the path)",
            remedy=f"write `name: {expected}`, or rename the file",
            code="TS204",
        )


def _collisions(workspaces: Iterable[Workspace]) -> Iterator[FileViolation]:
    """Yield endpoints of two environments in one account and region with equal full names."""
    names: dict[tuple[str, str, str], Path] = {}
    for workspace in workspaces:
        spec = workspace.spec
        for name in spec.endpoints:
            full = spec.endpoint_name(name)
            first = names.setdefault((spec.account, spec.region, full), workspace.environment.file)
            if first != workspace.environment.file:
                yield workspace.environment.violation(
                    ("endpoints", name),
                    f"endpoint name {full!r} is already used by {shown_path(first)}",
                    remedy="rename one of them, or choose another name_prefix",
                    code="TS204",
                )


def chosen_model(project: Project, model: str | None) -> str:
    """Return the given model, or else the only one of the project."""
    if model is not None:
        return model
    known = model_names(project)
    if len(known) != 1:
        raise UsageError(
            "no model was named",
            remedy=f"name one of {', '.join(known)}" if known else "`tritonstack new model` adds one",
            code="TS901",
        )
    return known[0]
