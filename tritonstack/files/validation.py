"""Check all files of a project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tritonstack.base.error_kinds import UnusableNameError
from tritonstack.base.errors import FileViolation, InvalidFilesError, shown_path
from tritonstack.files.checks.delivery import delivery_violations
from tritonstack.files.environment.delivery import load_delivery
from tritonstack.files.loading import ProjectFiles, sample_instance
from tritonstack.files.project.names import ignored_files
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.sources.contents import source_violations


def validate_project(files: ProjectFiles) -> list[FileViolation]:
    """Return all errors in all files of a project."""
    project = files.project
    violations = set(ignored_files(project))
    for name in files.model_names:
        try:
            files.model(name)
            model = files.checked(name)
            violations.update(model.violations, source_violations(model))
        except InvalidFilesError as error:
            violations.update(error.violations)
    workspaces, samples = [], []
    for name in files.environment_names:
        try:
            workspaces.append(files.workspace(name))
        except InvalidFilesError as error:
            violations.update(error.violations)
    for name in files.template_names:
        try:
            samples.append(files.instance(sample_instance(name)))
        except InvalidFilesError as error:
            violations.update(error.violations)
    violations.update(_collisions(workspaces))
    violations.update(_delivery_violations(files, workspaces, samples))
    return sorted(violations, key=str)


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
                    UnusableNameError,
                    ("endpoints", name),
                    f"endpoint name {full!r} is already used by {shown_path(first)}",
                    "rename one of them, or choose another name_prefix",
                )


def _delivery_violations(
    files: ProjectFiles, workspaces: Iterable[Workspace], samples: Iterable[Workspace]
) -> Iterator[FileViolation]:
    try:
        document = load_delivery(files.project)
    except InvalidFilesError as error:
        yield from error.violations
        return
    if document is None:
        return
    environments = dict.fromkeys(files.environment_names) | {
        workspace.spec.name: workspace.spec for workspace in workspaces
    }
    templates = dict.fromkeys(files.template_names) | {
        sample.instance.template: sample.spec for sample in samples if sample.instance
    }
    yield from delivery_violations(document, environments, templates)
