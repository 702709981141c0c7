"""onnx: a graph as it is given, compared with ONNX Runtime on that very graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from catalog.documents import Document
from catalog.errors import InvalidFilesError
from catalog.models import ModelSpec
from catalog.recipes import OnnxRecipe
from model_build.cases import Case, join_cases
from model_build.errors import ExportError
from model_build.graphs.records import ExportedGraph
from model_build.graphs.settle import settle_graph
from model_build.inputs.narrowing import narrow_tensors
from model_build.inputs.rows import Row, read_rows
from model_build.progress import Steps
from model_build.recipes.base import LaidRepository, Workshop
from model_build.recipes.given import describe_cases, lay_graph

Array = NDArray[Any]


REMEDIES = {
    False: "correct the input, or the graph",
    True: "write `batching: {max_batch: 0}`, or export the graph with a batch dimension that may vary",
}
"""For one row, and for several at once."""


class OnnxGraph:
    """The recipe for one model."""

    tools = ("onnx", "onnx-ir", "onnxruntime")

    def __init__(self, model: Document[ModelSpec], recipe: OnnxRecipe) -> None:
        self._model = model
        self._recipe = recipe

    def lay_repository(self, workshop: Workshop, steps: Steps) -> LaidRepository:
        """Check the graph, ask it for the right answers, and lay the repository."""
        graph = steps.run("read", lambda: self._read(workshop), _describe)
        cases = steps.run("answer", lambda: self._cases(graph), describe_cases)
        settled = settle_graph(graph, cases=cases, spec=self._model.record, workshop=workshop, steps=steps)
        return lay_graph(settled, cases, workshop, steps)

    def _read(self, workshop: Workshop) -> ExportedGraph:
        # onnx takes time to import, and a build that finds its artifact does not need it.
        from model_build.recipes.given_graph import copy_graph, read_tensors  # noqa: PLC0415

        file = copy_graph(workshop.source.folder, self._recipe.file, workshop.folder / "graph")
        batches = self._model.record.batching.max_batch > 0
        inputs, outputs = read_tensors(self._model, file, batches=batches)
        return ExportedGraph(file, *narrow_tensors(self._model, inputs, outputs), batches=batches)

    def _cases(self, graph: ExportedGraph) -> list[Case]:
        from model_build.recipes.given_graph import ask_session, start_session  # noqa: PLC0415 - as above

        session = start_session(graph.file)
        names = [tensor.name for tensor in graph.outputs]

        def answer(inputs: Mapping[str, Array], row: Row, count: int = 1) -> dict[str, Array]:
            try:
                answers = ask_session(session, names, inputs)
                if graph.batches:
                    _check_rows(answers, count)
            except ExportError as error:
                place = row.path if count == 1 else ("batching", "max_batch")
                told = error.message if count == 1 else f"of {count} rows at once: {error.message}"
                problem = self._model.problem(place, told, remedy=error.remedy or REMEDIES[count > 1])
                raise InvalidFilesError([problem]) from error
            return answers

        rows = read_rows(self._model, graph.inputs, graph.outputs)
        requests = [row.batch(row.inputs, batches=graph.batches) for row in rows]
        cases = [
            row.case(answer(request, row), batches=graph.batches)
            for row, request in zip(rows, requests, strict=True)
        ]
        if self._model.record.batching.max_batch > 1:
            twice = join_cases([cases[0], cases[0]])
            answer(twice.inputs, rows[0], count=2)
        return cases


def _check_rows(answers: Mapping[str, Array], count: int) -> None:
    """An answer has a row for each that was asked for, whatever the graph says of its sizes."""
    for name, array in answers.items():
        if array.shape[:1] != (count,):
            raise ExportError(
                f"{name} is {list(array.shape)}, which is not a row for each that was asked for",
                remedy=REMEDIES[True],
            )


def _describe(graph: ExportedGraph) -> str:
    size = sum(file.stat().st_size for file in Path(graph.file).parent.rglob("*") if file.is_file())
    tensors = ", ".join(tensor.name for tensor in (*graph.inputs, *graph.outputs))
    return f"{size / 1e6:.1f} MB; {tensors}"
