"""What a layout of a Hugging Face model's repository is asked for and gives.

A layout is what callers send: it decides which Triton models lie around the graph, and what the artifact is
asked before it is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from model_build.checking.cases import Case
from model_build.graphs.records import ServableGraph
from model_build.recipes.base import BuildContext
from model_build.repository.parts import Around, add_graph_model
from tritonstack.base.documents import Document
from tritonstack.base.errors import FileProblem
from tritonstack.records.manifests import EnvironmentReport, TensorSpec
from tritonstack.spec.models.model import ModelSpec

if TYPE_CHECKING:
    from model_build.exporters.framework import Framework

Array = NDArray[Any]
AnyFramework = TypeVar("AnyFramework", bound="Framework")
ENCODER = "model"
RANDOM_SEED = 20240917


class Layout(ABC, Generic[AnyFramework]):
    """Where the parts lie, and what they are asked; this much is one folder, named as the model."""

    parts: ClassVar[tuple[str, ...]] = ()
    """The names of the Triton models that are not the entry."""
    tools: ClassVar[tuple[str, ...]]
    """The distributions beside PyTorch's and ONNX's whose versions the artifact's bytes depend on."""

    def __init__(self, model: Document[ModelSpec]) -> None:
        self._model = model
        self._spec = model.record

    @abstractmethod
    def load(self, context: BuildContext) -> AnyFramework:
        """The model in its framework; only now are its libraries imported."""

    @abstractmethod
    def example(self, framework: AnyFramework) -> Mapping[str, Array]:
        """The first test input as the graph takes it."""

    @abstractmethod
    def graph_cases(self, framework: AnyFramework) -> Iterator[Case]:
        """What the graph is asked before it is served."""

    @abstractmethod
    def cases(self, framework: AnyFramework) -> Iterator[Case]:
        """What the served archive is asked, and the framework's answers."""

    def inputs(self, graph: ServableGraph) -> tuple[TensorSpec, ...]:
        """What callers send."""
        return graph.inputs

    def outputs(self, graph: ServableGraph, framework: AnyFramework) -> tuple[TensorSpec, ...]:
        """What callers get."""
        del framework
        return graph.outputs

    def write(
        self, repository: Path, graph: ServableGraph, framework: AnyFramework, context: BuildContext
    ) -> tuple[EnvironmentReport, ...]:
        """Fill the repository; the execution environments in it."""
        self._add_graph(repository, self._spec.name, graph, framework, context)
        return ()

    def faults(self) -> Iterator[FileProblem]:
        """What the model's file asks for and cannot be."""
        if self._spec.name in self.parts:
            yield self._model.problem(
                ("name",),
                f"{self._spec.name!r} is the name of a part of every artifact of this recipe",
                remedy="give the model another name",
            )
        if self._spec.batching.max_batch == 0:
            yield self._model.problem(
                ("batching", "max_batch"),
                "models that transformers loads answer batches, and 0 means none",
                remedy="write 1, or more",
            )

    def _add_graph(
        self,
        repository: Path,
        name: str,
        graph: ServableGraph,
        framework: AnyFramework,
        context: BuildContext,
    ) -> None:
        add_graph_model(
            repository,
            name=name,
            graph=graph,
            batching=self._spec.batching,
            triton=self._spec.triton,
            target=context.target,
            around=Around(model=self._model, example=in_types_of(self.example(framework), graph.inputs)),
        )


def rows_of(case: Case) -> Iterator[Case]:
    """Each row of a case as a case of its own."""
    for row in range(len(next(iter(case.inputs.values())))):
        yield Case(
            f"{case.name}, row {row + 1}",
            {name: array[row : row + 1] for name, array in case.inputs.items()},
            {name: array[row : row + 1] for name, array in case.expected.items()},
            typical=case.typical,
        )


def in_types_of(arrays: Mapping[str, Array], tensors: Iterable[TensorSpec]) -> dict[str, Array]:
    """Whole numbers as the graph takes them: engines of older TensorRT versions have smaller ones."""
    small = {tensor.name for tensor in tensors if tensor.datatype == "INT32"}
    return {name: array.astype(np.int32) if name in small else array for name, array in arrays.items()}


def same_names(tensors: Iterable[TensorSpec]) -> dict[str, str]:
    """A step's tensors, called in the pipeline as the step calls them."""
    return {tensor.name: tensor.name for tensor in tensors}


def random_numbers() -> np.random.Generator:
    """The same ones at every build."""
    return np.random.default_rng(RANDOM_SEED)
