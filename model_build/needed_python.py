"""Check that the local server's Python can import a model's packages, before anything is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tritonstack.base.error_kinds import PackagesError
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import PythonRecipe
from tritonstack.files.sources.contents import numpy_violations
from tritonstack.triton import TritonInstallation

_PACKAGES = re.compile(r"python(3\.\d+)/site-packages")
ELSEWHERE = "build without --local, which checks in the serving image"


def require_python(model: Document[ModelSpec], installation: TritonInstallation) -> None:
    """Raise InvalidFilesError for packages that the embedded server cannot import."""
    recipe = model.record.recipe
    if installation.kind != "embedded" or not isinstance(recipe, PythonRecipe):
        return
    reject(
        [
            *_python_violations(model, recipe, installation),
            *numpy_violations(
                model, release=installation.release, subject="the local server", otherwise=f"; or {ELSEWHERE}"
            ),
        ]
    )


def _python_violations(
    model: Document[ModelSpec], recipe: PythonRecipe, installation: TritonInstallation
) -> Iterator[FileViolation]:
    python = server_python(installation)
    if recipe.pythons and python not in recipe.pythons:
        yield model.violation(
            PackagesError,
            ("recipe", "pythons"),
            f"the packages are for Python {' and '.join(recipe.pythons)}; the local server "
            f"runs Python {python}",
            f'add "{python}"; or {ELSEWHERE}',
        )


def server_python(installation: TritonInstallation) -> str:
    """Return the Python version of an embedded server, such as 3.11."""
    matches = (_PACKAGES.search(str(folder)) for folder in installation.library_path)
    return next(match[1] for match in matches if match)
