"""triton: a Triton repository that someone else wrote, packed as it is and checked with test inputs.

There is no framework. Test inputs with expected outputs are compared with these. For the others, the served
repository answers once, and the packed archive must give the same answers in both hosting modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from model_build.checking.archive_checks import served_repository
from model_build.checking.served_model import InvocationClient, RequestPlan
from model_build.data import BuildContext, Case, Recipe, WrittenRepository
from model_build.environments.given import read_environment
from model_build.environments.packing import ENV_PARAMETER, target_python
from model_build.errors import (
    DamagedSourceError,
    LayoutError,
    ModelInputError,
    ServingError,
    UnsafeWeightsError,
)
from model_build.inputs.rows import Row, read_rows
from model_build.linting.backends import completed
from model_build.progress import BuildSteps
from model_build.recipes.given import describe_cases
from model_build.repository.config import CONFIG_NAME, datatype_name
from model_build.repository.existing import filled_in, parse_file
from model_build.repository.layout import check_layout, is_ensemble
from model_build.repository.properties import read_properties
from model_build.store.archive import is_safe_name
from tritonstack.base.error_kinds import MissingProgramError, ModelMismatchError
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.files import sha256_of
from tritonstack.base.source_files import copy_file
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target
from tritonstack.files.model.inputs import NEEDS_VNNI
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import TritonRecipe
from tritonstack.files.records.manifests import EnvironmentReport, TensorSpec

PICKLED = (".pkl", ".pickle", ".joblib", ".dill", ".pth", ".ckpt")
"""Suffixes of pickles. In Triton repositories, .pt files are TorchScript, and .bin files belong "
"to OpenVINO."""
SERVED_ONLY = "served only, not compared with a framework"
_VARIABLE = "$$TRITON_MODEL_DIRECTORY/"


class TritonRepository(Recipe[TritonRecipe]):
    """The recipe for one repository."""

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Copy the repository, serve it once, and record its answers."""
        repository = context.folder / "repository"
        configs = steps.run("repository", lambda: self._copy(context, repository), ", ".join)
        entry = configs[self._spec.name]
        _require_tensors(self._model, repository / self._spec.name, entry)
        inputs, outputs = tensors_of_config(repository / self._spec.name, entry)
        rows = read_rows(self._model, inputs, outputs)
        environments = tuple(_environments(repository, configs))
        self._require_backends(repository, configs, context)
        max_batch = int(entry.max_batch_size)
        names = {tensor.name for tensor in outputs}
        cases = steps.run(
            "answer", lambda: self._cases(rows, names, repository, max_batch, context), describe_cases
        )
        served = sum(case.origin == "itself" for case in cases)
        return WrittenRepository(
            folder=repository,
            entry=self._spec.name,
            target=Target(context.target.hardware, _python(environments, context.target.python)),
            inputs=inputs,
            outputs=outputs,
            parity=(),
            cases=cases,
            environments=environments,
            max_batch=max_batch,
            compared=not served,
            unverified=(*_unverified(served, len(cases)), *_overflows(repository, context.target)),
        )

    def _copy(self, context: BuildContext, repository: Path) -> dict[str, Any]:
        """Copy the files; return the configurations by model."""
        source = context.source
        is_local = (self._spec.source or "").startswith("file://")
        for name, file in source.files.items():
            self._check_file(name, is_local=is_local)
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            copy_file(file, repository / name)
        configs = {
            file.parent.name: parse_file(file, shown=source.folder / file.relative_to(repository))[1]
            for file in sorted(repository.glob(f"*/{CONFIG_NAME}"))
        }
        entry = check_layout(repository)
        layout = "ensemble" if is_ensemble(configs[entry]) else "single"
        if entry != self._spec.name:
            raise self._differs(
                "name",
                f"the repository's model is {entry!r}",
                f"rename its folder, and `name` in its {CONFIG_NAME}, to {self._spec.name!r}",
            )
        if layout != self._recipe.layout:
            raise self._differs(
                "recipe.layout",
                f"expected {layout!r} for this repository, got {self._recipe.layout!r}",
                f"write `layout: {layout}`",
            )
        return configs

    def _check_file(self, name: str, *, is_local: bool) -> None:
        if not is_safe_name(name):
            raise DamagedSourceError(
                f"{name!r} is not a safe file name",
                remedy="use letters, digits, '.', '_', '-', and '/' only",
            )
        trust = self._spec.trust
        if name.endswith(PICKLED) and trust.pickle is None:
            raise UnsafeWeightsError(
                f"{name} is a pickle, which can run code when loaded",
                remedy="remove it, or write `trust: {pickle: <reason>}`",
            )
        if name.endswith(".py") and not is_local and trust.remote_code is None:
            raise UnsafeWeightsError(
                f"{name} is code from {self._spec.source}",
                remedy="use a file:// source, or write `trust: {remote_code: <reason>}`",
            )

    def _differs(self, field: str, message: str, remedy: str) -> InvalidFilesError:
        path = tuple(field.split("."))
        return InvalidFilesError([self._model.violation(ModelMismatchError, path, message, remedy)])

    def _require_backends(self, repository: Path, configs: dict[str, Any], context: BuildContext) -> None:
        """Raise UsageError if the local server lacks a backend."""
        for name, config in configs.items():
            if is_ensemble(config):
                continue
            folders = (entry for entry in (repository / name).iterdir() if entry.name.isdecimal())
            versions = sorted(folders, key=lambda entry: int(entry.name))
            backend = completed(config, versions).backend
            if reason := context.installation.why_no_backend(backend):
                raise UsageError(
                    f"{self._spec.name!r} cannot be checked here: {name} needs the backend {backend!r}: "
                    f"{reason}",
                    remedy="build without --local, in the image that serves it",
                    code=MissingProgramError.code,
                )

    def _cases(
        self,
        rows: Sequence[Row],
        outputs: set[str],
        repository: Path,
        max_batch: int,
        context: BuildContext,
    ) -> list[Case]:
        batches = max_batch > 0
        cases = [row.case({}, batches=batches) for row in rows]
        if all(case.expected.keys() >= outputs for case in cases):
            return cases
        answers = self._answers(cases, repository, max_batch, context)
        return [
            case
            if case.expected.keys() >= outputs
            else replace(case, expected={**answer, **case.expected}, origin="itself")
            for case, answer in zip(cases, answers, strict=True)
        ]

    def _answers(
        self, cases: Sequence[Case], repository: Path, max_batch: int, context: BuildContext
    ) -> list[dict[str, Any]]:
        """Serve the repository, and ask every case once, in order."""
        with served_repository(
            repository,
            self._spec.name,
            installation=context.installation,
            state_dir=context.folder / "answering",
        ) as client:
            series = RequestPlan(cases, max_batch, read_properties(repository)).series()
            requests = [pair for sequence in series for pair in sequence]
            return [self._answer(client, case, dict(parameters)) for case, parameters in requests]

    def _answer(
        self, client: InvocationClient, case: Case, parameters: dict[str, int | str | bool]
    ) -> dict[str, Any]:
        answer = dict(client.ask(case.inputs, parameters))
        for name, array in answer.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ServingError(
                    f"{name} of {case.name} has values that are not finite, so answers cannot be compared",
                    remedy="write requests that callers send as `test_inputs`, instead of random ones",
                    code=ModelInputError.code,
                )
        return answer


def _overflows(repository: Path, target: Target) -> Iterator[str]:
    """Yield why the answers depend on the processor: a graph was quantized with all 8 bits."""
    graphs = [file for file in repository.glob("*/*/**/*.onnx") if file.is_file()]
    if graphs and not target.has_gpu:
        from model_build.graphs.overflow import can_overflow  # noqa: PLC0415 - onnx imports slowly

        names = sorted({file.relative_to(repository).parts[0] for file in graphs if can_overflow(file)})
        yield from (f"{name}: {NEEDS_VNNI}" for name in names)


def _unverified(served: int, total: int) -> Iterator[str]:
    if served:
        count = "all" if served == total else f"{served} of {total}"
        yield f"{SERVED_ONLY}: {count} test inputs have no expected outputs"


def _require_tensors(model: Document[ModelSpec], folder: Path, config: Any) -> None:
    if not (config.input and config.output):
        raise model.invalid(
            ModelMismatchError,
            ("source",),
            f"the {CONFIG_NAME} of {folder.name} declares no {'output' if config.input else 'input'}, so no "
            "request can be made",
            "declare all inputs and outputs of the model there",
        )


def tensors_of_config(folder: Path, config: Any) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the tensors of a model folder for callers, with the labels of its label files."""
    hidden = filled_in(config)

    def specs(tensors: Any) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(
                name=tensor.name,
                datatype=datatype_name(tensor.data_type),
                shape=tuple(tensor.dims),
                labels=_labels(folder / tensor.label_filename)
                if getattr(tensor, "label_filename", "")
                else (),
            )
            for tensor in tensors
            if tensor.name not in hidden
        )

    return specs(config.input), specs(config.output)


def _labels(file: Path) -> tuple[str, ...]:
    if not file.is_file():
        raise LayoutError(f"{file.parent.name}/{file.name} is missing", remedy="add the label file")
    return tuple(file.read_text(encoding="utf-8").splitlines())


def _environments(repository: Path, configs: dict[str, Any]) -> Iterator[EnvironmentReport]:
    """Yield the execution environments in the repository, each once."""
    files = set()
    for name, config in configs.items():
        value = config.parameters[ENV_PARAMETER].string_value if ENV_PARAMETER in config.parameters else ""
        file = (repository / name / value.removeprefix(_VARIABLE)).resolve()
        if not value.startswith(_VARIABLE) or file in files or not file.is_file():
            continue
        files.add(file)
        contents = read_environment(file, any_links=True)
        yield EnvironmentReport(
            path=file.relative_to(repository.resolve()).as_posix(),
            sha256=sha256_of(file),
            size_bytes=file.stat().st_size,
            unpacked_bytes=max(1, contents.unpacked_bytes),
            packages=tuple(sorted(contents.packages)),
            pythons=tuple(f"py{python.replace('.', '')}" for python in sorted(contents.pythons)),
        )


def _python(environments: Sequence[EnvironmentReport], endpoint_python: str | None) -> str | None:
    """Return the Python that the environments bind the artifact to; None if none."""
    pythons = {python for report in environments if (python := target_python(report, endpoint_python))}
    if len(pythons) > 1:
        raise LayoutError(
            f"its environments have different Pythons: {', '.join(sorted(pythons))}",
            remedy="pack them all for the Python of the endpoint's Triton release",
        )
    return pythons.pop() if pythons else None
