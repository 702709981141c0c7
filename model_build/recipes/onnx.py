"""onnx: a user's graph, compared with ONNX Runtime on the original file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from model_build.checking.parity import Answer, judge
from model_build.checking.sizes import (
    SizedCase,
    batch_cases,
    check_batches,
    check_outputs,
    check_sizes,
    sized_cases,
    unverified_reasons,
)
from model_build.data import (
    Array,
    BuildContext,
    Case,
    ExportedGraph,
    Recipe,
    ServableGraph,
    WrittenRepository,
    join_cases,
)
from model_build.errors import ExportError, ParityError, UnsupportedModelError
from model_build.inputs.narrowing import narrow_tensors
from model_build.inputs.rows import Row, read_rows
from model_build.layouts.prepared import preparation_for
from model_build.progress import BuildSteps
from model_build.recipes.given import GraphFront, choose_backend, describe_cases, describe_sizes, write_graph
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target
from tritonstack.files.model.inputs import NEEDS_VNNI, answers_remedy
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import OnnxRecipe

TOOLS = ("onnx", "onnx-ir", "onnxruntime")
REMEDIES = {
    False: "correct the input, or the graph",
    True: "set `batching: {max_batch: 0}`, or export the graph with a variable batch dimension",
}
"""Remedies for one row, and for several at once."""


class OnnxGraph(Recipe[OnnxRecipe]):
    """The recipe for one model."""

    def __init__(self, model: Document[ModelSpec], recipe: OnnxRecipe) -> None:
        super().__init__(model, recipe)
        self._preparation = preparation_for(model, recipe)
        self.tools = TOOLS if self._preparation is None else (*TOOLS, *self._preparation.tools)

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Check the graph, compute the expected answers, and write the repository."""
        graph = steps.run("read", lambda: self._read(context), lambda graph: f"{graph.size}; {graph.tensors}")
        preparation, front = self._preparation, None
        if preparation is None:
            rows = read_rows(self._model, graph.inputs, graph.outputs)
        else:
            steps.run(f"load {preparation.part}", lambda: preparation.load(context.source.folder), str)
            graph = replace(graph, inputs=preparation.fit(graph.inputs))
            rows, front = preparation.rows(graph.outputs), GraphFront(preparation, _answer_of(graph))
        cases = steps.run("answer", lambda: self._cases(graph, rows), describe_cases)
        sized = steps.run("compare sizes", lambda: self._check_sizes(graph, rows), describe_sizes)
        servable = choose_backend(graph, cases=cases, spec=self._model.record, context=context, steps=steps)
        self._check_settled(servable, sized)
        unverified = (
            *unverified_reasons(graph.inputs, graph.outputs, rows),
            *self._overflows(graph, servable, cases, context.target),
        )
        return write_graph(servable, cases, context, steps, unverified=unverified, front=front)

    def _check_sizes(self, graph: ExportedGraph, rows: Sequence[Row]) -> list[SizedCase]:
        """Run the graph at other sizes of every variable dimension, and in several batch sizes."""
        answer = _answer_of(graph)
        sized = sized_cases(self._model, graph.inputs, rows, answer, batches=graph.batches)
        check_outputs(self._model, graph.outputs, sized)
        batches = batch_cases(rows, answer, max_batch=self._model.record.batching.max_batch)
        check_batches(self._model, answer, batches, subject="the graph")
        return sized

    def _check_settled(self, servable: ServableGraph, sized: Sequence[SizedCase]) -> None:
        """Check that a converted graph accepts the original's sizes. An engine's sizes are its profiles'."""
        if servable.backend != "tensorrt" and servable.precision not in ("fp32", "int8"):
            from model_build.graphs.levels import level_of  # noqa: PLC0415 - as below

            graph = ExportedGraph(servable.folder / "model.onnx", servable.inputs, servable.outputs)
            answer = level_of(servable.precision, graph).session(graph).answer
            subject = f"the {servable.precision} graph"
            check_sizes(self._model, answer, sized, subject=subject, precision=servable.precision)

    def _overflows(
        self, graph: ExportedGraph, servable: ServableGraph, cases: Sequence[Case], target: Target
    ) -> Iterator[str]:
        """Yield why answers depend on the processor; raise ParityError if this one answers differently."""
        from model_build.graphs.overflow import can_overflow  # noqa: PLC0415 - as below
        from model_build.graphs.running import GraphSession, compare_graph  # noqa: PLC0415 - as below

        if target.has_gpu or not can_overflow(graph.file):
            return
        spec = self._model.record
        comparisons = compare_graph(GraphSession(graph.file, exact=False), cases)
        try:
            judge("graph", comparisons, spec.accept, precision=spec.tolerated(servable.precision))
        except ParityError as error:
            reason = f"{NEEDS_VNNI}, and this one has none; {error.message}"
            raise ParityError(
                reason, remedy=f"{answers_remedy((reason,))}, or build it on a CPU with VNNI"
            ) from error
        yield NEEDS_VNNI

    def _read(self, context: BuildContext) -> ExportedGraph:
        # onnx imports slowly, and a reused artifact does not need it.
        from model_build.recipes.given_graph import copy_graph, read_tensors  # noqa: PLC0415

        file = copy_graph(context.source.folder, self._recipe.file, context.folder / "graph")
        batches = self._model.record.batching.max_batch > 0
        inputs, outputs = read_tensors(self._model, file, batches=batches)
        return ExportedGraph(file, *narrow_tensors(self._model, inputs, outputs), batches=batches)

    def _cases(self, graph: ExportedGraph, rows: Sequence[Row]) -> list[Case]:
        from model_build.recipes.given_graph import ask_session, start_session  # noqa: PLC0415 - as above

        session = start_session(graph.file)
        names = [tensor.name for tensor in graph.outputs]

        def answer(inputs: Mapping[str, Array], row: Row, count: int = 1) -> dict[str, Array]:
            try:
                answers = ask_session(session, names, inputs, remedy=REMEDIES[count > 1])
                if graph.batches:
                    _check_rows(answers, count)
            except ExportError as error:
                place = row.path if count == 1 else ("batching", "max_batch")
                message = error.message if count == 1 else f"in a batch of {count} rows: {error.message}"
                raise self._model.invalid(error, place, message, error.remedy) from error
            return answers

        requests = [row.batch(row.inputs, batches=graph.batches) for row in rows]
        cases = [
            row.case(answer(request, row), batches=graph.batches, origin="itself")
            for row, request in zip(rows, requests, strict=True)
        ]
        if self._model.record.batching.max_batch > 1:
            twice = join_cases([cases[0], cases[0]])
            answer(twice.inputs, rows[0], count=2)
        return cases


def _answer_of(graph: ExportedGraph) -> Answer:
    """Wrap an ONNX Runtime session as a function."""
    from model_build.recipes.given_graph import ask_session, start_session  # noqa: PLC0415 - as above

    session, names = start_session(graph.file), [tensor.name for tensor in graph.outputs]
    return lambda inputs: ask_session(session, names, inputs)


def _check_rows(answers: Mapping[str, Array], count: int) -> None:
    """Check that an answer has one row per requested row, whatever the graph declares."""
    for name, array in answers.items():
        if array.shape[:1] != (count,):
            raise UnsupportedModelError(
                f"{name} has shape {list(array.shape)}; expected one row per requested row",
                remedy=REMEDIES[True],
            )
