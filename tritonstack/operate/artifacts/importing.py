"""Import a model that was built elsewhere into a project. Nothing is written unless the result is valid."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from model_build.importing.opening import open_import
from model_build.importing.records import ImportedModel, ImportRequest
from model_build.inputs.rows import read_rows
from model_build.linting.findings import Finding
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.paths import Project
from tritonstack.base.results import Internal
from tritonstack.base.yaml import parse_document
from tritonstack.files.loading import load_workspace
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.scaffold.commented_yaml import commented_yaml
from tritonstack.operate.artifacts.repository_check import lint_options
from tritonstack.operate.shared.new_files import adding_model, model_folder_files, new_endpoint, require_new
from tritonstack.operate.shared.session import Session

_OPTIONAL = ("accept", "trust")
_HEADER = """\
# Imported from {kind} {path}.
# Replace test inputs without expected outputs: their answers are served, and compared with nothing.
"""


@dataclass(frozen=True)
class ImportOptions:
    """How to import; None is the default."""

    name: str | None = None
    """The new model; default: the name of the imported one."""
    model: str | None = None
    """The model of a repository with several."""
    inputs: Path | None = None
    """An .npz file with test inputs, and expected outputs as `outputs/<name>`."""
    environment: str | None = None
    """The environment that gets an endpoint with the model."""
    release: str | None = None
    """The Triton release of the endpoint; default: that of `environment`, or the newest."""
    instance_type: str | None = None
    """The instance type of the endpoint."""
    trust_pickle: str | None = None
    """Why its pickles are safe to load."""


@dataclass(frozen=True)
class ImportResult:
    """What was imported."""

    name: str
    kind: str
    """Such as `Merlin export`."""
    files: tuple[Path, ...]
    changes: tuple[str, ...]
    """What the import changed or left out."""
    findings: tuple[Finding, ...]
    """Warnings about the imported repository."""
    environment: str | None
    """The environment that got an endpoint."""
    next_command: Internal[str] = ""
    """The command that adds its artifact to the lock; empty without an endpoint."""


def import_model(session: Session, path: Path, options: ImportOptions | None = None) -> ImportResult:
    """Write models/NAME for a model at `path`: a folder or an archive.

    Raises InvalidFilesError with what would fail on SageMaker, and UsageError if there is nothing to import.
    """
    choices = options or ImportOptions()
    project = session.project
    release = choices.release
    if choices.environment is not None:
        release = release or load_workspace(project, choices.environment).spec.triton_release
    request = ImportRequest(
        path,
        lint_options(release, choices.instance_type),
        choices.name,
        choices.model,
        choices.inputs,
        choices.trust_pickle,
    )
    with session.reporter.step(f"importing {path}") as step, open_import(request) as repository:
        name = request.named(repository.name)
        require_new(project, name, remedy="choose another name with --name")
        with adding_model(project, name) as staged:
            imported = repository.write(staged, name, request)
            _write_model_yaml(staged / "model.yaml", imported, path)
        step.detail = f"{imported.kind} as {name}"
    next_command = ""
    if choices.environment is not None:
        next_command = _add_endpoint(project, name, choices.environment, choices.instance_type)
    return ImportResult(
        name,
        imported.kind,
        model_folder_files(project, name),
        imported.changes,
        imported.findings,
        choices.environment,
        next_command,
    )


def _write_model_yaml(file: Path, imported: ImportedModel, path: Path) -> None:
    """Write model.yaml; raise UsageError for options that make it invalid."""
    header = _HEADER.format(kind=imported.kind, path=path.name)
    text = header + commented_yaml(ModelSpec, imported.values, optional=_OPTIONAL)
    try:
        document = parse_document(text, file, ModelSpec)
        file.write_text(text, encoding="utf-8")
        if imported.tensors is not None:
            read_rows(document, *imported.tensors)
    except InvalidFilesError as error:
        option = {"trust": "--trust-pickle", "test_inputs": "--inputs"}
        named = [(option.get(violation.field.partition(".")[0]), violation) for violation in error.violations]
        raise UsageError(
            "\n".join(f"{name or violation.field}: {violation.message}" for name, violation in named),
            remedy=error.violations[-1].remedy,
            code=error.violations[-1].code,
        ) from error


def _add_endpoint(project: Project, name: str, environment: str, instance_type: str | None) -> str:
    """Add the endpoint, and return the next command; remove the model if that fails."""
    try:
        files = new_endpoint(
            project, name, environment=environment, models=(name,), instance_type=instance_type
        )
    except BaseException:
        shutil.rmtree(project.models_dir / name)
        raise
    return files.next_command
