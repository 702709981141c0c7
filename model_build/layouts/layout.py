"""Interface of the repository layouts of Hugging Face models.

A layout decides the Triton models around the graph and the requests that check them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from model_build import served
from model_build.data import Array, BuildContext, Case, ServableGraph
from model_build.environments.packing import Packages, build_environment, installed_requirement
from model_build.repository.parts import (
    ModelProperties,
    SchedulingStep,
    add_ensemble,
    add_graph_model,
    add_python_model,
    environment_file,
)
from tritonstack.base.error_kinds import InvalidValueError, UnusableNameError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.triton_options import Batching
from tritonstack.files.records.manifests import EnvironmentReport, TensorSpec

if TYPE_CHECKING:
    from model_build.exporters.framework import Framework

SERVED = Path(served.__file__).parent
TOKENIZER_CODE = SERVED / "text_tokenizer.py"
PASSAGE_CODE = SERVED / "passage_tokenizer.py"
PREPARER_CODE = SERVED / "image_pixels.py"
TOKENIZER, PREPARER = "tokenizer", "preparer"
TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))
IMAGE = TensorSpec(name="IMAGE", datatype="BYTES", shape=(1,))
IDS = TensorSpec(name="input_ids", datatype="INT64", shape=(-1,))
MASK = TensorSpec(name="attention_mask", datatype="INT64", shape=(-1,))
Padding = Literal["together", "groups"]
"""Which texts a tokenizer pads to one length: all that wait, or groups of similar lengths."""


SERVED_ONNXRUNTIME = "onnxruntime==1.23.2"
"""The newest version with wheels for the Pythons of all Triton releases."""


def tokenizer_packages() -> Packages:
    """Return the packages of a tokenizer, without those for downloading tokenizers from the Hub."""
    return Packages((installed_requirement("tokenizers"),), dependencies=False)


def text_model_packages() -> Packages:
    """Return the packages of a tokenizer and a graph in one model, without those for converting graphs."""
    return Packages((installed_requirement("tokenizers"), SERVED_ONNXRUNTIME), dependencies=False)


def image_packages() -> Packages:
    """Return the packages of a decoder of images: Pillow for every Python."""
    return Packages((installed_requirement("pillow"),), dependencies=True)


def pack_environment(packages: Packages, repository: Path, model: str, cache_dir: Path) -> EnvironmentReport:
    """Pack the execution environment of a Python model."""
    return build_environment(
        packages.requirements,
        file=environment_file(repository, model),
        cache_dir=cache_dir,
        dependencies=packages.dependencies,
    )


def add_entry(
    repository: Path,
    spec: ModelSpec,
    *,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    steps: Sequence[SchedulingStep],
) -> None:
    """Write the ensemble that callers invoke."""
    add_ensemble(
        repository,
        name=spec.name,
        inputs=inputs,
        outputs=outputs,
        steps=steps,
        max_batch=spec.batching.max_batch,
        response_cache=spec.triton.response_cache,
    )


def add_tokenizer(
    repository: Path,
    *,
    tokenizer: str,
    callers_send: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    padding: Padding | None,
    batching: Batching,
    cache_dir: Path,
) -> EnvironmentReport:
    """Write a tokenizer; without `padding`, it pads each request by itself."""
    # The plain tokenizer only pads together, and returns ids of the type that most graphs take; engines of
    # older TensorRT versions take int32.
    is_plain = padding is not None and set(outputs) <= {IDS, MASK}
    parameters = {}
    if is_plain and padding == "groups":
        parameters = {"padding": "groups"}
    elif padding is not None and not is_plain:
        parameters = {"padding": "together"}
    version = add_python_model(
        repository,
        name=TOKENIZER,
        code=TOKENIZER_CODE if is_plain else PASSAGE_CODE,
        inputs=callers_send,
        outputs=outputs,
        batching=batching,
        properties=ModelProperties(parameters=parameters),
    )
    (version / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    return pack_environment(tokenizer_packages(), repository, TOKENIZER, cache_dir)


def add_preparer(
    repository: Path,
    *,
    preparation: Mapping[str, Any],
    outputs: Sequence[TensorSpec],
    batching: Batching,
    cache_dir: Path,
) -> EnvironmentReport:
    """Write a model that decodes and scales images."""
    version = add_python_model(
        repository, name=PREPARER, code=PREPARER_CODE, inputs=(IMAGE,), outputs=outputs, batching=batching
    )
    (version / "preparation.json").write_text(json.dumps(preparation, sort_keys=True) + "\n")
    return pack_environment(image_packages(), repository, PREPARER, cache_dir)


AnyFramework = TypeVar("AnyFramework", bound="Framework")
ENCODER = "model"
DEFAULT_LAYOUT = "one model"
"""The layout that recorded choices omit."""
RANDOM_SEED = 20240917


class Layout(ABC, Generic[AnyFramework]):
    """Base class: one folder with the graph, named after the model."""

    parts: ClassVar[tuple[str, ...]] = ()
    """Names of the Triton models other than the entry."""
    tools: tuple[str, ...]
    """Distributions, besides PyTorch and ONNX, whose versions decide the artifact's bytes."""

    def __init__(self, model: Document[ModelSpec]) -> None:
        self._model = model
        self._spec = model.record

    @abstractmethod
    def load(self, context: BuildContext) -> AnyFramework:
        """Load the model in its framework, importing its libraries."""

    @abstractmethod
    def example(self, framework: AnyFramework) -> Mapping[str, Array]:
        """Return the first test input in graph form."""

    @abstractmethod
    def graph_cases(self, framework: AnyFramework) -> Iterator[Case]:
        """Return the cases that check the graph before serving."""

    @abstractmethod
    def cases(self, framework: AnyFramework) -> Iterator[Case]:
        """Return the cases that check the served archive."""

    def inputs(self, graph: ServableGraph) -> tuple[TensorSpec, ...]:
        """Return the inputs that callers send."""
        return graph.inputs

    def outputs(self, graph: ServableGraph, framework: AnyFramework) -> tuple[TensorSpec, ...]:
        """Return the outputs that callers receive."""
        del framework
        return graph.outputs

    def alternatives(
        self, graph: ServableGraph, framework: AnyFramework, context: BuildContext
    ) -> Mapping[str, Layout[AnyFramework]]:
        """Return the layouts to measure for `precision: auto`, the default one first; empty for no choice."""
        del graph, framework, context
        return {}

    def write(
        self, repository: Path, graph: ServableGraph, framework: AnyFramework, context: BuildContext
    ) -> tuple[EnvironmentReport, ...]:
        """Write the repository; return its execution environments."""
        self._add_graph(repository, self._spec.name, graph, framework, context)
        return ()

    def violations(self) -> Iterator[FileViolation]:
        """Return violations in the model's file."""
        yield from reserved_name(self._model, self.parts)
        yield from unbatched(
            self._model, "transformers models support batches; 0 disables batching", "set 1 or more"
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
            properties=ModelProperties(
                model=self._model, example=in_types_of(self.example(framework), graph.inputs)
            ),
        )


def reserved_name(model: Document[ModelSpec], parts: Collection[str]) -> Iterator[FileViolation]:
    """Yield the violation of a model that has the name of one of its parts."""
    if model.record.name in parts:
        yield model.violation(
            UnusableNameError,
            ("name",),
            f"{model.record.name!r} is reserved for a part of this recipe's artifacts",
            "rename the model",
        )


def unbatched(model: Document[ModelSpec], message: str, remedy: str) -> Iterator[FileViolation]:
    """Yield the violation of a model without batches."""
    if model.record.batching.max_batch == 0:
        yield model.violation(InvalidValueError, ("batching", "max_batch"), message, remedy)


def odd_images() -> Iterator[tuple[str, Array]]:
    """Yield images that are wider, higher, smaller, or larger than a model's size, with their names."""
    for size in ((37, 91, 3), (120, 50, 3)):
        yield f"noise of {size[0]}x{size[1]}", random_numbers().integers(0, 256, size, dtype=np.uint8)


def in_types_of(arrays: Mapping[str, Array], tensors: Iterable[TensorSpec]) -> dict[str, Array]:
    """Cast integers to the graph's types: engines of older TensorRT versions use int32."""
    small = {tensor.name for tensor in tensors if tensor.datatype == "INT32"}
    return {name: array.astype(np.int32) if name in small else array for name, array in arrays.items()}


def same_names(tensors: Iterable[TensorSpec]) -> dict[str, str]:
    """Map a step's tensors to pipeline tensors of the same names."""
    return {tensor.name: tensor.name for tensor in tensors}


def random_numbers() -> np.random.Generator:
    """Return a random generator with a fixed seed."""
    return np.random.default_rng(RANDOM_SEED)
