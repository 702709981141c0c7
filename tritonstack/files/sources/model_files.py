"""Find the files of a model: files named in model.yaml, Python helper modules, and its source."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from tritonstack.base.error_kinds import (
    MissingReferenceError,
    ModelCodeError,
    UnreadableFileError,
    UntrustedPickleError,
)
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.source_files import (
    Files,
    SourceFile,
    UnsafeFileError,
    find_file,
    is_ignored,
    list_files,
    real_path,
    source_folder,
)
from tritonstack.base.yaml import Document, FieldPath
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import PythonRecipe

FILE_SCHEME = "file://"
CODE_SUFFIX = ".py"
TESTS = ("conftest", "test", "tests")
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib")
TAKEN = frozenset(
    {*sys.stdlib_module_names, "numpy", "triton_python_backend_utils", "c_python_backend_utils"}
)
"""Modules that Python finds before a model's files: Triton appends the model's folder to sys.path."""
MODEL_PACKAGE = "model/"
NO_FILES: Files = MappingProxyType({})


class ModelFiles(NamedTuple):
    """All files of the repository that a model's artifact depends on."""

    own: Files
    """Files named in model.yaml."""
    helpers: Files
    """Python modules and packages of a `python` recipe, named relative to model.py."""
    source: Files
    """Files of a `file://` source, named relative to it."""


def model_files(document: Document[ModelSpec]) -> ModelFiles:
    """List a model's files; raise InvalidFilesError for missing or unsafe files."""
    file_violations = list(_own_file_violations(document))
    own, helpers, source = {}, NO_FILES, NO_FILES
    if not file_violations:
        folder = document.file.parent
        own = {name: file for name in document.record.own_files if (file := find_file(folder, name))}
        helpers, violations = _try_files(document, ("recipe", "code"), helper_files)
        violations += _unreadable(document, ("recipe", "code"), helpers)
        file_violations += violations or _helper_violations(document, helpers)
        source, violations = _try_files(document, ("source",), source_files)
        file_violations += violations
        file_violations += _unreadable(document, ("source",), source)
    if file_violations:
        raise InvalidFilesError(file_violations)
    return ModelFiles(own, helpers, source)


def source_files(document: Document[ModelSpec]) -> Files:
    """Return the files of a `file://` source; empty for other sources."""
    trusted = document.record.trust.external_source is not None
    folder = _local_source(document, trusted=trusted)
    return NO_FILES if folder is None else list_files(folder)


def helper_files(document: Document[ModelSpec]) -> Files:
    """Return Python modules beside model.py, Python files in its folders, and all files of packages.

    Excluded: tests (`tests/`, `test_*.py`, `conftest.py`), the `source` folder, names for which `is_ignored`
    is true, names that cannot be imported, and unsafe files (such as links to data folders) unless Python
    code here imports them.
    """
    recipe = document.record.recipe
    if not isinstance(recipe, PythonRecipe):
        return NO_FILES
    code = document.file.parent / recipe.code
    source = _local_source(document, trusted=True)
    helpers: dict[str, SourceFile] = {}
    unsafe: dict[str, UnsafeFileError] = {}
    for entry in sorted(os.listdir(code.parent)):
        path = code.parent / entry
        if is_ignored(entry) or _is_test(entry) or entry == code.name or real_path(path) == source:
            continue
        if not _module(entry).isidentifier():
            continue
        try:
            helpers |= _package(code.parent, entry) if path.is_dir() else _one(code.parent, entry)
        except UnsafeFileError as error:
            unsafe[_module(entry)] = error
    if unsafe:
        imported = _imported(code, helpers, relative=True)
        for module, violation in unsafe.items():
            if module in imported:
                raise violation
    return MappingProxyType(helpers)


def module_names(helpers: Files) -> set[str]:
    """Return the modules and packages that helper files make importable."""
    return {_module(name.partition("/")[0]) for name in helpers}


def _package(folder: Path, entry: str) -> dict[str, SourceFile]:
    """Return the packed files of one folder: all files of a package, Python files elsewhere."""
    path = folder / entry
    if not entry.isidentifier() or not (path.is_symlink() or any(path.rglob(f"*{CODE_SUFFIX}"))):
        return {}
    files = list_files(folder, entry)
    packages = {str(PurePosixPath(name).parent) for name in files if name.endswith("__init__.py")}

    def is_packed(name: str) -> bool:
        path = PurePosixPath(name)
        if any(map(_is_test, path.parts)):
            return False
        return path.suffix == CODE_SUFFIX or any(str(above) in packages for above in path.parents)

    packed = {name: file for name, file in files.items() if is_packed(name)}
    return packed if any(name.endswith(CODE_SUFFIX) for name in packed) else {}


def _one(folder: Path, name: str) -> dict[str, SourceFile]:
    if not name.endswith(CODE_SUFFIX):
        return {}
    return {name: file} if (file := find_file(folder, name)) else {}


def _local_source(document: Document[ModelSpec], *, trusted: bool) -> Path | None:
    spec = document.record
    if spec.source is None or not spec.source.startswith(FILE_SCHEME):
        return None
    text = spec.source.removeprefix(FILE_SCHEME)
    return source_folder(document.file.parent, text, trusted=trusted)


def _is_test(name: str) -> bool:
    module = _module(name)
    return module in TESTS or module.startswith("test_")


def _module(name: str) -> str:
    return name.removesuffix(CODE_SUFFIX)


def _own_file_violations(document: Document[ModelSpec]) -> Iterator[FileViolation]:
    for name in document.record.own_files:
        place = _field_of(document.record, name)
        try:
            file = find_file(document.file.parent, name)
        except UnsafeFileError as error:
            yield document.violation(error, place, error.message, error.remedy)
            continue
        if file is not None:
            yield from _unreadable(document, place, {name: file})
        else:
            yield document.violation(
                MissingReferenceError,
                place,
                f"file {name} does not exist beside it",
                "add it, or correct its name",
            )


def _unreadable(document: Document[ModelSpec], place: FieldPath, files: Files) -> Iterator[FileViolation]:
    """Open each file, without reading it."""
    for name, file in files.items():
        try:
            file.path.open("rb").close()
        except OSError as error:
            yield document.violation(
                UnreadableFileError,
                place,
                f"cannot read {name}: {error.strerror}",
                "check the permissions of the file",
            )


def _field_of(spec: ModelSpec, name: str) -> FieldPath:
    """Return the field of model.yaml that names a file."""
    for field, value in spec.recipe:
        if isinstance(value, str) and value.partition(":")[0] == name:
            return ("recipe", field)
    for index, test_input in enumerate(spec.test_inputs):
        if name in test_input.own_files:
            return ("test_inputs", index)
    return ("triton", "config")


def _try_files(
    document: Document[ModelSpec], place: FieldPath, listing: Callable[[Document[ModelSpec]], Files]
) -> tuple[Files, list[FileViolation]]:
    try:
        return listing(document), []
    except UnsafeFileError as error:
        return NO_FILES, [document.violation(error, place, error.message, error.remedy)]


def _helper_violations(document: Document[ModelSpec], helpers: Files) -> list[FileViolation]:
    """Yield modules that cannot be imported, and pickles without `trust`."""
    recipe = document.record.recipe
    if not isinstance(recipe, PythonRecipe) or not helpers:
        return []
    folder = (document.file.parent / recipe.code).parent
    imported = _imported(document.file.parent / recipe.code, helpers)
    violations = [
        FileViolation(
            folder / (f"{module}{CODE_SUFFIX}" if f"{module}{CODE_SUFFIX}" in helpers else module),
            None,
            "",
            f"`import {module}` does not find it: Python's or the image's own module takes precedence",
            "rename it",
            code=ModelCodeError.code,
        )
        for module in sorted(module_names(helpers) & TAKEN & imported)
    ]
    if any(name.startswith(MODEL_PACKAGE) for name in helpers):
        text = "Triton would import this package instead of model.py"
        violations.append(
            FileViolation(folder / MODEL_PACKAGE, None, "", text, "rename it", code=ModelCodeError.code)
        )
    pickles = [name for name in helpers if name.endswith(PICKLE_SUFFIXES)]
    if pickles and document.record.trust.pickle is None:
        violations.append(
            document.violation(
                UntrustedPickleError,
                ("trust", "pickle"),
                "the package beside model.py contains a pickle, which can run code when loaded: "
                f"{pickles[0]}",
                "remove it, or write `trust: {pickle: <reason>}`",
            )
        )
    return violations


def _imported(code: Path, helpers: Files, *, relative: bool = False) -> set[str]:
    """Return the top-level modules that model.py and its helpers import; with `relative`, those of `from
    .x`."""
    files = [code, *(file.path for name, file in helpers.items() if name.endswith(CODE_SUFFIX))]
    return {module for file in files for module in _imports(file, relative=relative)}


def _imports(file: Path, *, relative: bool) -> Iterator[str]:
    """Return the modules that a file imports; empty if it is not valid Python, which the recipe reports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (relative or node.level == 0):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (name.partition(".")[0] for name in names)
