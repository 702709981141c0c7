"""torchscript: a module saved by torch.jit, or built by a function beside model.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from model_build.checking.parity import Answer, compare_answers, describe_parity
from model_build.checking.sizes import (
    SizedCase,
    batch_cases,
    check_batches,
    check_sizes,
    difference_of,
    sized_cases,
    unverified_reasons,
)
from model_build.data import Array, BuildContext, Case, Recipe, ServableGraph, WrittenRepository, join_cases
from model_build.errors import ModelInputError
from model_build.inputs.narrowing import narrow_tensors, tensors_of_rows
from model_build.inputs.rows import Row, read_rows
from model_build.layouts.prepared import preparation_for
from model_build.progress import BuildSteps
from model_build.recipes.given import GraphFront, describe_cases, describe_sizes, write_graph
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.source_files import copy_from
from tritonstack.base.yaml import Document, suggest
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import TorchScriptRecipe
from tritonstack.files.records.examples import Origin
from tritonstack.files.records.manifests import TensorSpec

if TYPE_CHECKING:
    from model_build.exporters.torchscript import TracedModule


@dataclass(frozen=True)
class _ModulePair:
    """The served module, and the answers it is compared with."""

    served: TracedModule
    original: Answer


@dataclass(frozen=True)
class _LoadedModule:
    """A loaded module before its test inputs are known."""

    arguments: tuple[str, ...] | None
    make: Callable[[Mapping[str, Array]], _ModulePair]


class TorchScript(Recipe[TorchScriptRecipe]):
    """The recipe for one model."""

    def __init__(self, model: Document[ModelSpec], recipe: TorchScriptRecipe) -> None:
        super().__init__(model, recipe)
        self._preparation = preparation_for(model, recipe)
        self._fitted: dict[str, TensorSpec] = {}
        self.tools = ("torch", *(self._preparation.tools if self._preparation else ()))
        self._max_batch = model.record.batching.max_batch

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Load or trace the module, compare it with the original, and write the repository."""
        source = context.source.folder
        folder = context.folder / "graph"
        load = self._load_file if self._recipe.file is not None else self._load_entry
        loaded = steps.run("load", lambda: load(source, folder), _describe_arguments)
        preparation = self._preparation
        if preparation is not None:
            steps.run(f"load {preparation.part}", lambda: preparation.load(source), str)
        rows = self._rows(loaded.arguments)
        pair = steps.run("make module", lambda: loaded.make(self._example(rows)), _describe_module)
        cases = steps.run("answer", lambda: self._cases(rows, pair.original), describe_cases)
        sized = steps.run("compare sizes", lambda: self._check_sizes(rows, cases, pair), describe_sizes)
        inputs, outputs = self._tensors(
            rows, [*cases, *(resized.case for resized in sized)], pair.served.inputs
        )
        accept = self._model.record.accept
        parity = steps.run(
            "compare graph",
            lambda: compare_answers(pair.served.answer, cases, accept, max_batch=self._max_batch),
            describe_parity,
        )
        servable = ServableGraph(
            folder=folder,
            backend="pytorch",
            precision="fp32",
            inputs=inputs,
            outputs=outputs,
            parity=parity,
            batches=self._max_batch > 0,
        )
        # A traced module was compared with the original module; a file has no original.
        unverified = () if self._recipe.entry else unverified_reasons(inputs, outputs, rows)
        front = None if preparation is None else GraphFront(preparation, pair.original)
        return write_graph(servable, cases, context, steps, unverified=unverified, front=front)

    def _check_sizes(self, rows: Sequence[Row], cases: Sequence[Case], pair: _ModulePair) -> list[SizedCase]:
        """Compare at other sizes of every variable dimension, and in several batch sizes."""
        subject = "the traced module" if self._recipe.entry else "the module"
        for case in cases:
            self._unbatched(case)  # raises for an answer that is not a batch of one
        inputs = self._inputs(rows)
        sized = sized_cases(self._model, inputs, rows, pair.original, batches=self._max_batch > 0)
        if difference_of(self._model, pair.served.answer, cases[0]):
            return sized  # wrong at its own size too: the graph comparison reports that
        check_sizes(self._model, pair.served.answer, sized, subject=subject)
        batches = batch_cases(rows, pair.original, max_batch=self._max_batch)
        # A file's module is its own original: dict.fromkeys checks it once.
        for answer in dict.fromkeys((pair.original, pair.served.answer)):
            check_batches(self._model, answer, batches, subject=subject)
        return sized

    def _load_file(self, source: Path, folder: Path) -> _LoadedModule:
        # torch takes seconds to import, and a reused artifact does not need it.
        from model_build.exporters.torchscript import FILE_NAME, load_torchscript  # noqa: PLC0415
        from model_build.model_files import check_torchscript  # noqa: PLC0415

        file = source / str(self._recipe.file)
        check_torchscript(file)
        folder.mkdir(parents=True)
        copy_from(source, str(self._recipe.file), folder / FILE_NAME)
        module = load_torchscript(folder / FILE_NAME)
        return _LoadedModule(module.inputs, lambda _: _ModulePair(module, module.answer))

    def _load_entry(self, source: Path, folder: Path) -> _LoadedModule:
        from model_build.exporters import torchscript  # noqa: PLC0415 - as above
        from model_build.exporters.entry_points import (  # noqa: PLC0415
            call_entry,
            load_entry,
            make_module,
        )

        module_folder, entry = self._model.file.parent, str(self._recipe.entry)
        function = load_entry(module_folder, entry)
        file = module_folder / entry.partition(":")[0]
        module = call_entry(lambda: make_module(function, source), file)

        def make(example: Mapping[str, Array]) -> _ModulePair:
            wrapper = call_entry(lambda: torchscript.name_tensors(module, example), file)
            traced = torchscript.trace_module(wrapper, example)
            saved = torchscript.save_torchscript(traced, folder)
            return _ModulePair(torchscript.load_torchscript(saved, outputs=traced.outputs), wrapper.answer)

        return _LoadedModule(torchscript.known_arguments(module), make)

    def _rows(self, arguments: Sequence[str] | None) -> list[Row]:
        """Read the test inputs; they may be random if model.yaml declares every tensor of forward."""
        if self._preparation is not None:
            fitted = self._preparation.fit([self._preparation.unsized(name) for name in arguments or ()])
            self._fitted = {tensor.name: tensor for tensor in fitted}
            return self._preparation.rows()
        narrowings = self._model.record.tensors
        declared = [
            TensorSpec(name=name, datatype=item.datatype, shape=item.shape)
            for name, item in narrowings.items()
            if item.datatype is not None and item.shape is not None and name in (arguments or ())
        ]
        declares_all = bool(declared) and len(declared) == len(arguments or ())
        rows = read_rows(self._model, declared if declares_all else None)
        file_violations = [
            violation
            for row in rows
            for violation in self._name_violations(row, arguments or tuple(row.inputs))
        ]
        reject(dict.fromkeys(file_violations))
        return rows

    def _example(self, rows: Sequence[Row]) -> dict[str, Array]:
        """Return the tracing example: two rows, because size 1 may become a constant."""
        batches = self._max_batch > 0
        first = Case("", rows[0].batch(rows[0].inputs, batches=batches), {})
        return dict(join_cases([first, first]).inputs if batches else first.inputs)

    def _cases(self, rows: Sequence[Row], original: Answer) -> list[Case]:
        batches = self._max_batch > 0
        origin: Origin = "framework" if self._recipe.entry else "itself"
        return [
            row.case(original(row.batch(row.inputs, batches=batches)), batches=batches, origin=origin)
            for row in rows
        ]

    def _inputs(self, rows: Sequence[Row]) -> tuple[TensorSpec, ...]:
        """Return the inputs of the rows; a tokenizer's have any length."""
        inputs = tensors_of_rows(self._model, rows)
        return tuple(self._fitted.get(tensor.name, tensor) for tensor in inputs)

    def _tensors(
        self, rows: Sequence[Row], cases: Sequence[Case], order: Sequence[str]
    ) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
        """Derive inputs and outputs from `cases`: those of the rows first, then of other sizes."""
        inputs = {spec.name: spec for spec in self._inputs(rows)}
        places = [*(row.path for row in rows), *[rows[0].path] * (len(cases) - len(rows))]
        answered = [
            Row(case.name, path, {}, self._unbatched(case)) for path, case in zip(places, cases, strict=True)
        ]
        outputs = tensors_of_rows(self._model, answered, outputs=True)
        return narrow_tensors(self._model, [inputs[name] for name in order], outputs)

    def _unbatched(self, case: Case) -> Mapping[str, Array]:
        if self._max_batch == 0:
            return case.expected
        for name, array in case.expected.items():
            if array.shape[:1] != (1,):
                raise self._model.invalid(
                    ModelMismatchError,
                    ("batching", "max_batch"),
                    f"for one row, {name} has shape {list(array.shape)}; expected a batch of one",
                    "set `batching: {max_batch: 0}`, or return one row per input row",
                )
        return {name: array[0] for name, array in case.expected.items()}

    def _name_violations(self, row: Row, arguments: Sequence[str]) -> list[FileViolation]:
        takes = f"the module's forward takes {', '.join(arguments)}"
        violations = [
            self._model.violation(
                ModelInputError,
                (*row.path, "inputs", name),
                takes,
                suggest(name, arguments, "correct the name"),
            )
            for name in row.inputs
            if name not in arguments
        ]
        missing = [name for name in arguments if name not in row.inputs]
        if missing:
            violations.append(
                self._model.violation(
                    ModelInputError, row.path, f"missing {', '.join(missing)}; {takes}", "add it"
                )
            )
        return violations


def _describe_arguments(loaded: _LoadedModule) -> str:
    return f"forward takes {', '.join(loaded.arguments or ('any name',))}"


def _describe_module(pair: _ModulePair) -> str:
    return f"{', '.join(pair.served.inputs)} -> {', '.join(pair.served.outputs) or 'as it answers'}"
