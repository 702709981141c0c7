"""scikit-learn: models and pipelines, converted to ONNX and compared with scikit-learn's own answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from model_build.data import BuildContext, Case, ExportedGraph, Recipe, WrittenRepository
from model_build.errors import ModelInputError, ParityError
from model_build.inputs.narrowing import narrow_tensors, tensors_of_rows
from model_build.inputs.rows import Row, read_rows
from model_build.layouts.layout import unbatched
from model_build.progress import BuildSteps
from model_build.recipes.given import choose_backend, describe_cases, untrusted_pickle, write_graph
from tritonstack.base.errors import reject
from tritonstack.base.yaml import Document
from tritonstack.files.model.fields import TensorNarrowing
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import ScikitLearnRecipe
from tritonstack.files.records.manifests import TensorSpec

if TYPE_CHECKING:
    from model_build.exporters.scikit_learn import ScikitModel

Tensors = tuple[TensorSpec, ...]


class ScikitLearn(Recipe[ScikitLearnRecipe]):
    """The recipe for one model."""

    tools = ("onnx", "onnx-ir", "onnxruntime", "scikit-learn", "skl2onnx")

    def __init__(self, model: Document[ModelSpec], recipe: ScikitLearnRecipe) -> None:
        super().__init__(model, recipe)
        message = "scikit-learn models always take batches of rows"
        violations = [*unbatched(model, message, "set the largest number of rows, such as 1024")]
        if self._spec.trust.pickle is None:
            otherwise = "convert it with skl2onnx, and use a recipe of kind onnx"
            violations.append(untrusted_pickle(model, recipe.file, otherwise=otherwise))
        reject(violations)

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Load and convert the model, compute its answers, compare, and write the repository."""
        loaded = steps.run("load", lambda: self._load(context), lambda model: model.description)
        rows, inputs = self._rows(loaded)
        graph = steps.run(
            "convert",
            lambda: self._convert(loaded, inputs, context),
            lambda graph: f"{graph.size}; {graph.tensors}",
        )
        cases = steps.run("answer", lambda: self._cases(loaded, rows, graph), describe_cases)
        try:
            servable = choose_backend(graph, cases=cases, spec=self._spec, context=context, steps=steps)
        except ParityError as error:
            if loaded.remedy_for_thresholds is None:
                raise
            raise ParityError(error.message, remedy=loaded.remedy_for_thresholds) from error
        return write_graph(servable, cases, context, steps)

    def _load(self, context: BuildContext) -> ScikitModel:
        # scikit-learn imports slowly, and a reused artifact does not need it.
        from model_build.exporters.scikit_learn import load_scikit_model  # noqa: PLC0415

        return load_scikit_model((context.source.folder / self._recipe.file).resolve())

    def _rows(self, loaded: ScikitModel) -> tuple[list[Row], Tensors]:
        """Return the test inputs, and the inputs that they declare: one tensor, or one per column."""
        from model_build.exporters.scikit_learn import TYPES, WHOLE  # noqa: PLC0415 - as above

        first = self._spec.test_inputs[0].inputs
        if not loaded.columns or first is None or WHOLE in first:
            datatype = self._spec.tensors.get(WHOLE, TensorNarrowing()).datatype or "FP32"
            inputs: Tensors = (TensorSpec(name=WHOLE, datatype=datatype, shape=(loaded.features,)),)
            rows = read_rows(self._model, inputs)
        else:
            rows = read_rows(self._model)
            tensors = {tensor.name: tensor for tensor in tensors_of_rows(self._model, rows)}
            if tensors.keys() != set(loaded.columns):
                raise self._model.invalid(
                    ModelInputError,
                    ("test_inputs", 0, "inputs"),
                    f"got {', '.join(tensors)}; the model was fitted on {', '.join(loaded.columns)}",
                    "write one tensor per column, or all features as the tensor X",
                )
            inputs = tuple(tensors[name] for name in loaded.columns)
        self._check(inputs, types=TYPES, whole=WHOLE)
        return rows, inputs

    def _check(self, inputs: Tensors, *, types: Collection[str], whole: str) -> None:
        """Reject inputs that skl2onnx has no type for, and columns with several values."""
        violations = []
        for tensor in inputs:
            problem = None
            if tensor.datatype not in types:
                problem = f"{tensor.name} is {tensor.datatype}; expected one of {', '.join(types)}"
            elif tensor.name != whole and tensor.shape != (1,):
                problem = f"{tensor.name} has shape {list(tensor.shape)}; expected one value, in a list: [1]"
            if problem is not None:
                violations.append(
                    self._model.violation(
                        ModelInputError, ("test_inputs", 0), problem, "correct the test inputs"
                    )
                )
        reject(violations)

    def _convert(self, loaded: ScikitModel, inputs: Tensors, context: BuildContext) -> ExportedGraph:
        from model_build.exporters.scikit_learn import PROBABILITIES  # noqa: PLC0415 - as above
        from model_build.recipes.given_graph import read_tensors  # noqa: PLC0415 - as above

        file = loaded.convert(inputs, context.folder / "graph")
        _, outputs = read_tensors(self._model, file, batches=True)
        labelled = [
            output.model_copy(update={"labels": loaded.labels}) if output.name == PROBABILITIES else output
            for output in outputs
        ]
        return ExportedGraph(file, *narrow_tensors(self._model, inputs, labelled))

    def _cases(self, loaded: ScikitModel, rows: Sequence[Row], graph: ExportedGraph) -> list[Case]:
        return [
            row.case(loaded.answer(row.batch(row.inputs, batches=True), graph.outputs), batches=True)
            for row in rows
        ]
