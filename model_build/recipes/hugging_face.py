"""Shared flow of all Hugging Face recipes: load, export, compare, and write the repository.

The task decides the head (exporters/heads); the input form decides the parts around the graph (layouts/).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model_build.checking.parity import compare_answers, describe_parity
from model_build.data import BuildContext, Case, Recipe, ServableGraph, WrittenRepository
from model_build.environments.packing import EarlyPacking, Packages
from model_build.errors import ExportError, FieldError
from model_build.inputs.narrowing import narrow_tensors
from model_build.layouts.choose import choose_layout
from model_build.layouts.images import image_layout
from model_build.layouts.layout import (
    Layout,
    image_packages,
    in_types_of,
    text_model_packages,
    tokenizer_packages,
)
from model_build.layouts.texts import text_layout
from model_build.progress import BuildSteps
from model_build.recipes.given import bound_python, choose_backend
from tritonstack.base.errors import reject
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import (
    HuggingFaceRecipe,
    ImageRecipe,
    TextClassificationRecipe,
    TextEmbeddingRecipe,
    TextPairClassificationRecipe,
    TextRecipe,
)
from tritonstack.files.records.manifests import ParityReport

if TYPE_CHECKING:
    from model_build.exporters.framework import Framework

TOOLS = ("torch", "transformers", "onnx", "onnx-ir", "onnxscript", "onnxruntime")
ONE_ROW_PER_TEXT = (TextEmbeddingRecipe, TextClassificationRecipe, TextPairClassificationRecipe)


@dataclasses.dataclass(frozen=True)
class _Answered:
    """Requests with the framework's answers."""

    graph_cases: Sequence[Case]
    served_cases: Sequence[Case]

    def __str__(self) -> str:
        return f"{len(self.graph_cases)} requests to the graph, {len(self.served_cases)} to the server"


class HuggingFace(Recipe[HuggingFaceRecipe]):
    """The recipe for one model."""

    def __init__(self, model: Document[ModelSpec], recipe: HuggingFaceRecipe) -> None:
        super().__init__(model, recipe)
        self._layout = _layout_for(model, recipe)
        reject(self._layout.violations())
        self.tools = (*TOOLS, *self._layout.tools)

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Write the repository; pack its execution environment during the export."""
        with EarlyPacking(context.cache_dir) as packing:
            return self._written(context, steps, packing)

    def _written(self, context: BuildContext, steps: BuildSteps, packing: EarlyPacking) -> WrittenRepository:
        """Load the framework, export, compare, and write the repository."""
        framework = steps.run("load", lambda: self._load(context), _describe_loaded)
        answered = steps.run("answer", lambda: self._answered(framework), str)
        # Not before: PyTorch computes the answers with all cores.
        packing.start(likely_packages(self._recipe, context.target))
        servable = self._settle(framework, answered.graph_cases, context, steps)
        layout, layouts = choose_layout(
            self._layout, servable, framework, answered.served_cases, context, steps
        )
        inputs, outputs = layout.inputs(servable), layout.outputs(servable, framework)
        repository = context.folder / "repository"
        environments = steps.run(
            "repository",
            lambda: layout.write(repository, servable, framework, context),
            lambda reports: f"{_parts(repository)}; runs on {bound_python(reports, context) or 'any Python'}",
        )
        return WrittenRepository(
            folder=repository,
            entry=self._spec.name,
            target=Target(context.target.hardware, bound_python(environments, context)),
            inputs=inputs,
            outputs=outputs,
            parity=(servable.parity,),
            cases=[
                dataclasses.replace(case, inputs=in_types_of(case.inputs, inputs))
                for case in answered.served_cases
            ],
            precision=servable.precision,
            tensorrt=servable.tensorrt,
            candidates=(*servable.candidates, *layouts),
            environments=environments,
            unused_weights=framework.unused_weights,
        )

    def _load(self, context: BuildContext) -> Framework:
        try:
            framework: Framework = self._layout.load(context)
        except FieldError as error:
            raise self._model.invalid(error, error.field, error.message, error.remedy) from error
        return framework

    def _answered(self, framework: Framework) -> _Answered:
        return _Answered(list(self._layout.graph_cases(framework)), list(self._layout.cases(framework)))

    def _settle(
        self, framework: Framework, cases: Sequence[Case], context: BuildContext, steps: BuildSteps
    ) -> ServableGraph:
        """Export and compare the graph; apply `tensors` of model.yaml."""
        folder = context.folder / "graph"
        if self._recipe.format == "torchscript":
            return self._narrowed(self._settle_script(framework, cases, folder, steps), framework)
        graph = steps.run("export", lambda: framework.export(folder), lambda graph: f"ONNX, {graph.size}")
        # The recipe, completed from the source (for example, the maximum length).
        spec = self._spec.model_copy(update={"recipe": framework.head.recipe})
        servable = choose_backend(graph, cases=cases, spec=spec, context=context, steps=steps)
        return self._narrowed(servable, framework)

    def _settle_script(
        self, framework: Framework, cases: Sequence[Case], folder: Path, steps: BuildSteps
    ) -> ServableGraph:
        from model_build.exporters.torchscript import load_torchscript  # noqa: PLC0415 - imports torch

        file = steps.run(
            "export",
            lambda: framework.trace(folder),
            lambda file: f"TorchScript, {file.stat().st_size / 1e6:.1f} MB",
        )

        def compare() -> ParityReport:
            # Triton's backend matches inputs by forward's argument names and outputs by position.
            script = load_torchscript(file, outputs=framework.head.outputs)
            try:
                return compare_answers(
                    script.answer, cases, self._spec.accept, max_batch=self._spec.batching.max_batch
                )
            except ExportError as error:
                # The model answers these inputs in the framework: the traced module is at fault.
                error.remedy = (
                    "use `format: onnx`, or a recipe of kind python: PyTorch cannot trace this model"
                )
                raise

        parity = steps.run("compare graph", compare, describe_parity)
        inputs, outputs = framework.tensors()
        return ServableGraph(
            folder=folder,
            backend="pytorch",
            precision="fp32",
            inputs=inputs,
            outputs=outputs,
            parity=parity,
        )

    def _narrowed(self, servable: ServableGraph, framework: Framework) -> ServableGraph:
        """Apply the labels of model.yaml; reject unknown names."""
        beside = [
            output for output in self._layout.outputs(servable, framework) if output not in servable.outputs
        ]
        inputs, outputs = narrow_tensors(self._model, servable.inputs, [*servable.outputs, *beside])
        return dataclasses.replace(servable, inputs=inputs, outputs=outputs[: len(servable.outputs)])


def _layout_for(model: Document[ModelSpec], recipe: HuggingFaceRecipe) -> Layout[Any]:
    match recipe:
        case TextRecipe():
            return text_layout(model, recipe)
        case ImageRecipe():
            return image_layout(model, recipe)
        case _:
            raise TypeError(f"{type(recipe).__name__} is not a recipe for transformers models")


def likely_packages(recipe: HuggingFaceRecipe, target: Target) -> Packages | None:
    """Return the packages of the default layout; None if it has no Python model.

    The layout decides after the export. A wrong guess costs only the time of another core.
    """
    match recipe:
        case TextRecipe(input="text"):
            return text_model_packages() if _is_one_model(recipe, target) else tokenizer_packages()
        case ImageRecipe(input="image"):
            return image_packages()
    return None


def _is_one_model(recipe: TextRecipe, target: Target) -> bool:
    return (
        recipe.one_model is not False
        and isinstance(recipe, ONE_ROW_PER_TEXT)
        and recipe.format == "onnx"
        and not target.has_gpu
    )


def _parts(repository: Path) -> str:
    return ", ".join(sorted(folder.name for folder in repository.iterdir()))


def _describe_loaded(framework: Framework) -> str:
    unused = ", ".join(framework.unused_weights)
    return f"{framework.description}; tensors not used: {unused}" if unused else framework.description
