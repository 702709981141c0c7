"""python: user code for Triton's Python backend, with its packages."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from model_build.checking.archive_checks import unsendable
from model_build.checking.running_reference import ask_reference
from model_build.data import Array, BuildContext, Case, Recipe, WrittenRepository
from model_build.environments.given import accept_environment
from model_build.environments.packing import build_environment, target_python
from model_build.environments.wheels import read_requirements
from model_build.errors import DamagedSourceError, EnvironmentBuildError, ModelInputError
from model_build.inputs.narrowing import narrow_tensors, tensors_of_rows
from model_build.inputs.rows import Row, read_rows
from model_build.progress import BuildSteps
from model_build.recipes.given import describe_cases, served_cases, served_tensors
from model_build.recipes.members import add_calls, build_members
from model_build.repository.config import datatype_name
from model_build.repository.existing import read_existing, tensors_of_triton
from model_build.repository.flattening import CALLING_MODEL, OWN_CODE, logic_name
from model_build.repository.options import with_controls
from model_build.repository.parts import ModelProperties, add_python_model, environment_file
from model_build.sources import file_selection
from model_build.store.archive import is_safe_name
from tritonstack.base.error_kinds import (
    MissingReferenceError,
    ModelCodeError,
    ModelMismatchError,
)
from tritonstack.base.errors import FileViolation, InvalidFilesError, reject
from tritonstack.base.source_files import SourceFile, copy_file, copy_from
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target
from tritonstack.files.model.inputs import WRITE_ANSWERS, WRITE_RESPONSES
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import PythonRecipe
from tritonstack.files.records.manifests import EnvironmentReport, TensorSpec
from tritonstack.files.sources.model_files import helper_files, module_names

Tensors = tuple[TensorSpec, ...]
CLASS, METHOD = "TritonPythonModel", "execute"


class PythonModel(Recipe[PythonRecipe]):
    """The recipe for one model."""

    def __init__(self, model: Document[ModelSpec], recipe: PythonRecipe) -> None:
        super().__init__(model, recipe)
        self._folder = model.file.parent
        self._batches = model.record.batching.max_batch > 0
        reject([*self._code_violations(), *self._answer_violations()])
        self._requirements = self._read_requirements()
        self._helpers = helper_files(model)

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Compute the expected answers, write the model, and pack its packages."""
        inputs, outputs = self._tensors_of_config()
        rows = read_rows(self._model, inputs, outputs)
        cases = steps.run("answer", lambda: self._cases(rows, context), describe_cases)
        if inputs is None or outputs is None:
            inputs, outputs = self._tensors_of_rows(rows, cases)
        spec = self._model.record
        datatypes = {name: tensor.datatype for name, tensor in spec.tensors.items() if tensor.datatype}
        inputs = with_controls(inputs, spec.triton.sequences, datatypes)
        inputs, outputs = narrow_tensors(self._model, inputs, outputs)
        filled_in = tensors_of_triton(self._model)
        repository = context.folder / "repository"
        cases = served_cases(cases, (*inputs, *outputs), filled_in)
        self._require_sendable(rows, cases, inputs)
        signature = (inputs, outputs, cases[0])
        steps.run("repository", lambda: self._write(repository, signature, context), lambda _: self._name)
        report = steps.run("environment", lambda: self._environment(repository, context), _describe)
        self._check_helpers(report)
        python = target_python(report, context.target.python)
        alone = WrittenRepository(
            folder=repository,
            entry=self._model.record.name,
            target=Target(context.target.hardware, python),
            inputs=served_tensors(inputs, filled_in),
            outputs=served_tensors(outputs, filled_in),
            parity=(),
            cases=cases,
            environments=(report,),
        )
        if not self._recipe.calls:
            return alone
        return add_calls(alone, self._model, build_members(self._recipe.members, context), steps)

    def _require_sendable(
        self, rows: Sequence[Row], cases: Sequence[Case], inputs: Sequence[TensorSpec]
    ) -> None:
        """Reject test inputs of a decoupled model to which Triton would give another shape."""
        reject(
            [
                self._model.violation(
                    ModelMismatchError,
                    row.path,
                    f"a decoupled model takes flat lists, whose shape Triton restores, but {reason}: only "
                    "the last variable size can differ from 1",
                    "set fixed sizes: `tensors: {<input>: {shape: [...]}}`",
                )
                for row, case in zip(rows, cases, strict=True)
                if self._model.record.streams
                and (reason := unsendable(case, served_tensors(inputs, ()), batches=self._batches))
            ]
        )

    @property
    def _name(self) -> str:
        """Name of the Triton model with the code."""
        name = self._model.record.name
        return logic_name(name) if self._recipe.calls else name

    def _write(
        self, repository: Path, signature: tuple[Tensors, Tensors, Case], context: BuildContext
    ) -> None:
        spec = self._model.record
        code = (self._folder / self._recipe.code).resolve()
        version = add_python_model(
            repository,
            name=self._name,
            code=CALLING_MODEL if self._recipe.calls else code,
            inputs=signature[0],
            outputs=signature[1],
            batching=spec.batching,
            triton=spec.triton,
            target=context.target,
            properties=ModelProperties(model=self._model, example=signature[2].inputs),
        )
        if self._recipe.calls:
            copy_from(code.parent, code.name, version / OWN_CODE)
        packed = {code}
        for file in (*self._helpers.values(), *_selected_source_files(spec, context)):
            if file.path in packed:
                continue  # the source is the folder of model.py, or a parent folder
            packed.add(file.path)
            if not is_safe_name(file.name) or (version / file.name).exists():
                raise DamagedSourceError(
                    f"{file.name} cannot be packed beside model.py: "
                    f"{'unsafe name' if not is_safe_name(file.name) else 'duplicate name'}",
                    remedy="use letters, digits, '.', '_', '-' and '/' only, and each name once",
                )
            (version / file.name).parent.mkdir(parents=True, exist_ok=True)
            copy_file(file, version / file.name)

    def _environment(self, repository: Path, context: BuildContext) -> EnvironmentReport:
        file = environment_file(repository, self._name)
        if self._recipe.environment:
            return accept_environment(self._folder / self._recipe.environment, file=file)
        return build_environment(
            self._requirements, file=file, cache_dir=context.cache_dir, pythons=self._recipe.pythons
        )

    def _check_helpers(self, report: EnvironmentReport) -> None:
        """Reject files shadowed by packages, which come first on Python's path."""
        packages = {package.partition("==")[0].lower().replace("-", "_") for package in report.packages}
        reject(
            [
                FileViolation(
                    (self._folder / self._recipe.code).parent / module,
                    None,
                    "",
                    f"the required package {module} has the same name and shadows it",
                    "rename it",
                    code=ModelCodeError.code,
                )
                for module in sorted(module_names(self._helpers) & packages)
            ]
        )

    def _read_requirements(self) -> tuple[str, ...]:
        name = self._recipe.requirements
        if name is None:
            return ()
        try:
            return read_requirements((self._folder / name).read_text(encoding="utf-8"))
        except EnvironmentBuildError as error:
            violation = FileViolation(
                self._folder / name, None, "", error.message, error.remedy, code=error.code
            )
            raise InvalidFilesError([violation]) from error

    def _tensors_of_config(self) -> tuple[Tensors | None, Tensors | None]:
        """Read the tensors of a user-written config.pbtxt, if it declares any."""
        existing = read_existing(self._model)
        if existing is None or not (existing.message.input and existing.message.output):
            return None, None
        return _tensors(existing.message.input), _tensors(existing.message.output)

    def _tensors_of_rows(self, rows: Sequence[Row], cases: Sequence[Case]) -> tuple[Tensors, Tensors]:
        answered = [
            Row(
                row.name,
                row.path,
                row.inputs,
                {name: array[0] if self._batches else array for name, array in answer.items()},
            )
            for row, case in zip(rows, cases, strict=True)
            for answer in (case.responses or [case.expected])
        ]
        return tensors_of_rows(self._model, rows), tensors_of_rows(self._model, answered, outputs=True)

    def _cases(self, rows: Sequence[Row], context: BuildContext) -> list[Case]:
        streams = self._model.record.streams
        answers: list[list[dict[str, Array]]] = [[] for _ in rows]
        if self._recipe.reference is not None:
            requests = [row.batch(row.inputs, batches=self._batches) for row in rows]
            source = context.source.folder if self._model.record.source else None
            answers = ask_reference(
                self._folder, self._recipe.reference, requests, source=source, several=streams
            )
        cases = [self._case(row, answer) for row, answer in zip(rows, answers, strict=True)]
        violations = [
            self._model.violation(
                ModelInputError,
                row.path,
                "no expected answer",
                f"{self._write_answers}, or return every output from `reference`",
            )
            for row, case in zip(rows, cases, strict=True)
            if not (case.responses if streams else case.expected)
        ]
        violations += [
            self._model.violation(
                ModelInputError,
                row.path,
                "a decoupled model sends several responses, and a row of an .npz file holds one",
                "remove the arrays outputs/<name>, and compute the responses by `reference`",
            )
            for row in rows
            if streams and row.outputs
        ]
        violations += self._batch_violations(rows, cases)
        reject(dict.fromkeys(violations))
        return cases

    def _case(self, row: Row, answers: Sequence[dict[str, Array]]) -> Case:
        if not self._model.record.streams:
            expected = answers[0] if answers else {}
            return replace(row.case(expected, batches=self._batches), origin="given")
        responses = [row.batch(response, batches=self._batches) for response in row.responses]
        inputs = row.batch(row.inputs, batches=self._batches)
        return Case(row.name, inputs, {}, origin="given", responses=responses or list(answers))

    @property
    def _write_answers(self) -> str:
        return WRITE_RESPONSES if self._model.record.streams else WRITE_ANSWERS

    def _batch_violations(self, rows: Sequence[Row], cases: Sequence[Case]) -> Iterator[FileViolation]:
        for row, case in zip(rows, cases, strict=True):
            pairs = (pair for answer in (case.expected, *case.responses) for pair in answer.items())
            for name, array in pairs:
                if self._batches and array.shape[:1] != (1,):
                    yield self._model.violation(
                        ModelInputError,
                        row.path,
                        f"the reference returns {name} of shape {list(array.shape)} for one row",
                        "return one row per input row, or set `batching: {max_batch: 0}`",
                    )

    def _code_violations(self) -> Iterator[FileViolation]:
        file = self._folder / self._recipe.code
        if not file.is_file():
            yield self._model.violation(
                MissingReferenceError, ("recipe", "code"), f"file not found: {self._recipe.code}", "add it"
            )
            return
        try:
            tree = ast.parse(file.read_bytes(), filename=str(file))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            yield FileViolation(
                file, line, "", f"not valid Python: {error.args[0]}", "correct it", code=ModelCodeError.code
            )
            return
        models = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == CLASS]
        inherits = any(model.bases for model in models)
        methods = {
            node.name
            for model in models
            for node in model.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        if METHOD not in methods and not inherits:
            yield FileViolation(
                file,
                None,
                "",
                f"missing class {CLASS} with a method {METHOD}",
                "Triton requires these names",
                code=ModelCodeError.code,
            )

    def _answer_violations(self) -> Iterator[FileViolation]:
        """Require expected answers: there is no framework to compare with."""
        if self._recipe.reference is not None:
            file = self._folder / self._recipe.reference.partition(":")[0]
            if not file.is_file():
                yield self._model.violation(
                    MissingReferenceError, ("recipe", "reference"), f"file not found: {file.name}", "add it"
                )
            return
        for index, item in enumerate(self._model.record.test_inputs):
            is_answered = item.outputs is not None or item.responses is not None
            if item.random is not None or (item.inputs is not None and not is_answered):
                yield self._model.violation(
                    ModelInputError,
                    ("test_inputs", index),
                    "no expected answers",
                    f"{self._write_answers}, or `reference: <file>.py:<function>` in `recipe`",
                )


def _selected_source_files(spec: ModelSpec, context: BuildContext) -> list[SourceFile]:
    if spec.source is None:
        return []
    selection = file_selection(spec)
    return [file for name, file in context.source.files.items() if selection.holds(name)]


def _tensors(entries: Any) -> Tensors:
    return tuple(
        TensorSpec(name=entry.name, datatype=datatype_name(entry.data_type), shape=tuple(entry.dims))
        for entry in entries
    )


def _describe(report: EnvironmentReport) -> str:
    if not report.packages:
        return "no packages beyond the image's"
    return f"{len(report.packages)} packages, {report.size_bytes / 1e6:.1f} MB"
