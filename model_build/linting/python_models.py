"""Rules for Python models and TorchScript files: execution environment, and calls of other models."""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path

from model_build.environments.given import read_environment
from model_build.environments.packing import ENV_PARAMETER
from model_build.errors import (
    EnvironmentBuildError,
    ExportError,
    SurprisingSettingError,
    UnsafeWeightsError,
    UnsupportedModelError,
)
from model_build.linting.backends import completed
from model_build.linting.findings import Finding, LintOptions, ModelFolder, in_file, is_small
from model_build.model_files import check_torchscript
from model_build.repository.contradictions import PLATFORMS
from tritonstack.base.error_kinds import ModelCodeError
from tritonstack.facts.container_variables import ADDITIONAL_ARGS
from tritonstack.facts.releases import RELEASES
from tritonstack.files.sources.contents import called_models

TORCHSCRIPT = PLATFORMS["pytorch"]
SAVE = "save it with torch.jit.trace(...).save(file) or torch.jit.script(...).save(file)"
_VARIABLE = "$$TRITON_MODEL_DIRECTORY"
_PYTHON = re.compile(r"python(3\.\d+)")
SLOW_BYTES = 1 << 30
"""Unpacking a larger environment takes most of a minute."""


def python_rules(
    model: ModelFolder, root: Path, options: LintOptions, *, loaded: Collection[str]
) -> Iterator[Finding]:
    """Yield findings about a model's Python code, environment, and TorchScript.

    `loaded` are the models that endpoints load for sure: those of the only ensemble.
    """
    whole = completed(model.config, model.versions)
    if whole.backend == "pytorch" and whole.platform in ("", *TORCHSCRIPT):
        yield from _torchscript(model, whole.default_model_filename)
    if whole.backend != "python":
        return
    for version in model.versions:
        file = version / whole.default_model_filename
        if is_small(file):
            yield from _calls(model, file, loaded)
    yield from _environment(model, root, options)


def _torchscript(model: ModelFolder, file_name: str) -> Iterator[Finding]:
    for version in model.versions:
        file = version / file_name
        if not file.is_file():
            continue
        shown = model.shown / file.relative_to(model.folder)
        try:
            check_torchscript(file)
        except UnsafeWeightsError as error:
            remedy = "use weights from a trusted source"
            yield in_file("warning", SurprisingSettingError.code, shown, error.message, remedy)
        except ExportError as error:
            yield in_file("error", UnsupportedModelError.code, shown, error.message.partition(";")[0], SAVE)


def _calls(model: ModelFolder, file: Path, loaded: Collection[str]) -> Iterator[Finding]:
    """Yield calls of other models (BLS), which Triton does not load as dependencies."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the server says why
    called = sorted({name for name, _ in called_models(tree)} - {*loaded})
    if called:
        options = " ".join(f"--load-model={name}" for name in called)
        yield in_file(
            "warning",
            SurprisingSettingError.code,
            model.shown / file.relative_to(model.folder),
            f"calls {', '.join(called)}, which Triton on SageMaker does not load by itself",
            f"build it with `recipe: {{kind: python, calls: [{', '.join(called)}]}}`, which both hosting "
            f"modes load; or set {ADDITIONAL_ARGS}={options!r} on a single-model endpoint",
        )


def _environment(model: ModelFolder, root: Path, options: LintOptions) -> Iterator[Finding]:
    if ENV_PARAMETER not in model.config.parameters:
        return
    value = model.config.parameters[ENV_PARAMETER].string_value
    inner = posixpath.normpath(f"{model.name}/{value.removeprefix(_VARIABLE).lstrip('/')}")
    if not value.startswith(_VARIABLE):
        yield _error(
            model,
            f"{ENV_PARAMETER} {value!r} is no path in the repository",
            f'pack the environment, and set "{_VARIABLE}/env.tar.gz"',
        )
    elif inner.startswith("../") or inner == "..":
        yield _error(model, f"{ENV_PARAMETER} {value!r} is outside the repository", "move it inside")
    elif not (root / inner).exists():
        yield _error(model, f"file not found: {inner}", f"add it, or correct {ENV_PARAMETER}")
    else:
        yield from _packages(model, root / inner, options)


def _error(model: ModelFolder, message: str, remedy: str) -> Finding:
    return model.error(message, remedy, "parameters", code=ModelCodeError.code)


def _packages(model: ModelFolder, file: Path, options: LintOptions) -> Iterator[Finding]:
    """Yield findings about an environment: its Python, its size, and whether Triton can activate it."""
    try:
        names, size = _contents(file)
    except EnvironmentBuildError as error:
        text = error.message.removeprefix(str(file)).removeprefix(":").strip()
        yield _error(model, f"{file.name} {text}", error.remedy or "pack it again")
        return
    if "bin/activate" not in names:
        yield _error(
            model,
            f"{file.name} has no bin/activate",
            "pack the environment itself with conda-pack, without a leading folder",
        )
    pythons = {
        match[1] for name in names if name.startswith(("bin/", "lib/")) and (match := _PYTHON.search(name))
    }
    python = RELEASES[options.release].python
    if pythons and python not in pythons:
        yield _error(
            model,
            f"{file.name} has Python {' and '.join(sorted(pythons))}; Triton {options.release} runs Python "
            f"{python}",
            f"create the environment with Python {python}, or pass the endpoint's --release",
        )
    if size > SLOW_BYTES:
        yield model.warning(
            f"{file.name} unpacks to {size >> 20} MiB, into /tmp, before the model starts",
            "remove packages that the model does not import",
            "parameters",
        )


def _contents(file: Path) -> tuple[set[str], int]:
    if file.is_file():
        contents = read_environment(file, any_links=True)
        return contents.names, contents.unpacked_bytes
    files = [path for path in file.rglob("*") if not path.is_symlink()]
    return {path.relative_to(file).as_posix() for path in files}, 0
