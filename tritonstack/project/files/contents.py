"""Check a model's files without reading them completely."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tritonstack.base.error_kinds import MissingSourceError, PackagesError, SourceFileError
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.source_files import source_folder
from tritonstack.base.yaml import Document
from tritonstack.facts.releases import NUMPY_2_SINCE
from tritonstack.project.files.model_calls import undeclared_calls
from tritonstack.project.files.model_files import FILE_SCHEME, ModelFiles, model_files
from tritonstack.project.files.requirement_files import REMEDY, pinned_version, requirement_lines
from tritonstack.project.files.safetensors_header import REMEDY as COPY_AGAIN
from tritonstack.project.files.safetensors_header import header_violation
from tritonstack.project.files.source_selection import file_selection
from tritonstack.project.files.unread_parts import unread_violations
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import PythonRecipe


class CheckedModel(NamedTuple):
    """A model with its files."""

    document: Document[ModelSpec]
    files: ModelFiles | None
    """None if one of them is missing or unsafe."""
    violations: tuple[FileViolation, ...]
    """Missing or unsafe files, unpinned requirements, undeclared calls, and incomplete weights."""


def check_model(document: Document[ModelSpec]) -> CheckedModel:
    """List the files of a model and check them."""
    try:
        files = model_files(document)
    except InvalidFilesError as error:
        return CheckedModel(document, None, error.violations)
    violations = (
        *_unpinned_requirements(document),
        *undeclared_calls(document, files),
        *_incomplete_weights(document, files),
    )
    return CheckedModel(document, files, violations)


def source_violations(model: CheckedModel) -> Iterator[FileViolation]:
    """Yield a `file://` source without its folder, or without the file or weights that the recipe needs."""
    document, spec = model.document, model.document.record
    source = spec.source or ""
    if not source.startswith(FILE_SCHEME) or model.files is None:
        return
    folder = source_folder(document.file.parent, source.removeprefix(FILE_SCHEME), trusted=True)
    if not folder.is_dir():
        problem = "a file, not a folder" if folder.exists() else "folder not found"
        yield document.violation(
            MissingSourceError,
            ("source",),
            f"{source}: {problem}: {folder}",
            "name the folder that has the model, relative to the folder of model.yaml",
        )
        return
    selection, files = file_selection(spec), list(model.files.source)
    if not selection.has_weights(files):
        missing = selection.missing(files)
        place = ("recipe", "file") if selection.exact else ("source",)
        yield document.violation(missing, place, f"{source}: {missing.message}", missing.remedy)
    else:
        yield from unread_violations(document, files, folder)


def requirements_of(document: Document[ModelSpec]) -> Iterator[tuple[int, str]]:
    """Yield the requirements of a Python model with line numbers."""
    recipe = document.record.recipe
    if isinstance(recipe, PythonRecipe) and recipe.requirements is not None:
        file = document.file.parent / recipe.requirements
        if file.is_file():
            yield from requirement_lines(file.read_text(encoding="utf-8", errors="replace"))


def numpy_violations(
    document: Document[ModelSpec], *, release: str, subject: str, otherwise: str = ""
) -> Iterator[FileViolation]:
    """Yield a NumPy requirement that the Python backend of a release does not support."""
    if release >= NUMPY_2_SINCE:
        return
    for number, line in requirements_of(document):
        name, version = pinned_version(line) or ("", "0")
        if name == "numpy" and int(version.partition(".")[0]) >= 2:
            yield _requirement_violation(
                document,
                number,
                f"the Python backend of {subject} (Triton {release}) requires NumPy 1, got {version}",
                f"write numpy==1.26.4, or remove it to use the NumPy of {subject}{otherwise}",
            )


def _requirement_violation(
    document: Document[ModelSpec], line: int, message: str, remedy: str
) -> FileViolation:
    """Describe a problem at a line of a Python model's requirements."""
    recipe = document.record.recipe
    name = recipe.requirements if isinstance(recipe, PythonRecipe) else None
    return FileViolation(
        document.file.parent / (name or ""), line, "", message, remedy, code=PackagesError.code
    )


def _unpinned_requirements(document: Document[ModelSpec]) -> Iterator[FileViolation]:
    for number, line in requirements_of(document):
        if pinned_version(line) is None:
            yield _requirement_violation(document, number, f"{line!r} has no exact version", REMEDY)


def _incomplete_weights(document: Document[ModelSpec], files: ModelFiles) -> Iterator[FileViolation]:
    """Find incomplete weights before hashing, which takes minutes for large files."""
    for name, file in files.source.items():
        if (
            "/" not in name
            and name.endswith(".safetensors")
            and (violation := header_violation(file.path, name))
        ):
            yield document.violation(SourceFileError, ("source",), violation, COPY_AGAIN)
