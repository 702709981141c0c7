"""Check a model's files without reading them completely."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from tritonstack.base.error_kinds import CompositionError, MissingSourceError, PackagesError, SourceFileError
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.source_files import source_folder
from tritonstack.base.yaml import Document, suggest
from tritonstack.facts.releases import NUMPY_2_SINCE
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import PythonRecipe
from tritonstack.files.sources.model_files import CODE_SUFFIX, FILE_SCHEME, ModelFiles, model_files
from tritonstack.files.sources.safetensors_header import REMEDY as COPY_AGAIN
from tritonstack.files.sources.safetensors_header import header_violation
from tritonstack.files.sources.source_selection import file_selection
from tritonstack.files.sources.unread_parts import unread_violations

REQUEST, NAME = "InferenceRequest", "model_name"


def undeclared_calls(document: Document[ModelSpec], files: ModelFiles) -> Iterator[FileViolation]:
    """Yield calls of models that `recipe.calls` omits; names that the code computes are found when served."""
    recipe = document.record.recipe
    if not isinstance(recipe, PythonRecipe):
        return
    code = {name: file for name, file in files.own.items() if name == recipe.code} | dict(files.helpers)
    for name, file in sorted(code.items()):
        if not name.endswith(CODE_SUFFIX):
            continue
        for called, line in _called(file.path.read_bytes()):
            if called not in recipe.calls:
                path = document.file.parent / name if name == recipe.code else file.path
                yield FileViolation(
                    path,
                    line,
                    "",
                    f"the code calls the model {called!r}, which `recipe.calls` does not declare",
                    suggest(called, recipe.calls, f"write `calls: [{', '.join((*recipe.calls, called))}]`"),
                    code=CompositionError.code,
                )


def _called(code: bytes) -> Iterator[tuple[str, int]]:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the build reports it
    yield from called_models(tree)


def called_models(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the models that requests to other models name as text, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last_name(node.func) == REQUEST:
            for keyword in node.keywords:
                value = keyword.value
                if keyword.arg == NAME and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value, value.lineno


def _last_name(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


_PINNED = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*===?\s*(?P<version>[^\s,;*<>=!~]+)\s*"
    r"(;[^#]*?)?(\s--hash=\S+)*"
)
REMEDY = "write <name>==<version>, optionally followed by --hash=sha256:… to pin the file"


def requirement_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield requirements with line numbers; a trailing backslash continues a line."""
    begin, parts = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        begin = begin if parts else number
        continued = line.rstrip().endswith("\\")
        parts.append(line.rstrip().removesuffix("\\"))
        if continued:
            continue
        joined = " ".join(parts).partition(" #")[0].strip()
        parts = []
        if joined and not joined.startswith("#"):
            yield begin, joined


def pinned_version(line: str) -> tuple[str, str] | None:
    """Return a requirement's name and exact version; None if it is not pinned."""
    match = _PINNED.fullmatch(line)
    return (match["name"].lower(), match["version"]) if match else None


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
