"""Find calls of other models in the code of Python models."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tritonstack.base.error_kinds import CompositionError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document, suggest
from tritonstack.project.files.model_files import CODE_SUFFIX, ModelFiles
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import PythonRecipe

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
