"""Records that the parts of a build exchange: test cases, graphs, and the interface of recipes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from model_build.progress import BuildSteps
from model_build.sources import FetchedSource
from tritonstack.base.files import folder_bytes
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target
from tritonstack.files.model.fields import UNTRUSTED, Trust
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tolerance import Precision
from tritonstack.files.records.examples import Origin
from tritonstack.files.records.manifests import (
    CandidateReport,
    EnvironmentReport,
    ParityReport,
    TensorSpec,
    split_choice,
)
from tritonstack.triton import TritonInstallation

Array = NDArray[Any]
AnyRecipe = TypeVar("AnyRecipe")


@dataclass(frozen=True)
class Case:
    """A request with the framework's answer; the first dimension of each array is the batch."""

    name: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    typical: bool = True
    """Whether users send such requests; latency is measured only for these."""
    origin: Origin = "framework"
    """Source of `expected`."""
    responses: Sequence[Mapping[str, Array]] = ()
    """Responses of a decoupled model, in order; `expected` is then empty."""


def same_shapes(cases: Sequence[Case]) -> list[list[Case]]:
    """Group cases that can share one request, by shape; the first case's group comes first."""
    groups: dict[tuple[tuple[int, ...], ...], list[Case]] = {}
    for case in cases:
        arrays = (*case.inputs.values(), *case.expected.values())
        groups.setdefault(tuple(array.shape for array in arrays), []).append(case)
    return list(groups.values())


def join_cases(cases: Sequence[Case]) -> Case:
    """Join several rows into one request."""
    return Case(
        f"{len(cases)} rows",
        {name: np.concatenate([case.inputs[name] for case in cases]) for name in cases[0].inputs},
        {name: np.concatenate([case.expected[name] for case in cases]) for name in cases[0].expected},
    )


def batches(cases: Sequence[Case], max_batch: int) -> Iterator[Case]:
    """Join cases of equal shapes into batches of up to `max_batch` rows; yield none without batching."""
    if not max_batch:
        return
    for alike in same_shapes(cases):
        size = max(1, max_batch // row_count(alike[0]))
        for begin in range(0, len(alike), size):
            yield join_cases(alike[begin : begin + size])


def row_count(case: Case) -> int:
    """Return the number of rows in a request."""
    return len(next(iter(case.inputs.values())))


def rows_of(case: Case) -> list[Case]:
    """Split a case into one case per row."""
    return [
        Case(
            f"{case.name}, row {row + 1}",
            {name: array[row : row + 1] for name, array in case.inputs.items()},
            {name: array[row : row + 1] for name, array in case.expected.items()},
            typical=case.typical,
            origin=case.origin,
        )
        for row in range(row_count(case))
    ]


@dataclass(frozen=True)
class FrameworkFiles:
    """What a framework loads: the files of a folder, as a recipe says."""

    folder: Path
    recipe: Any
    trust: Trust = UNTRUSTED
    allow_unused: Mapping[str, str] = field(default_factory=dict)
    """Patterns of tensors that the model may leave unused, with the reasons."""


@dataclass(frozen=True)
class BuildContext:
    """Inputs of a recipe."""

    model: Document[ModelSpec]
    source: FetchedSource
    folder: Path
    """An empty folder, deleted after the build."""
    cache_dir: Path
    target: Target
    """The requested target."""
    installation: TritonInstallation
    """The server that checks the archive."""
    build_member: Callable[[str], Path]
    """Builds another model for the same target; returns its artifact folder."""
    shared_cache: str | None = None
    """`s3://bucket/prefix` for timing caches and engines shared between build machines."""
    recorded_choice: str | None = None
    """What `precision: auto` chose in an earlier build of the same files: a graph, or `GRAPH; LAYOUT`."""

    def files(self, recipe: Any) -> FrameworkFiles:
        """Return what a framework loads for a recipe."""
        spec = self.model.record
        return FrameworkFiles(self.source.folder, recipe, spec.trust, spec.allow_unused_weights)

    @property
    def recorded_graph(self) -> str | None:
        """Return the graph of the recorded choice."""
        return None if self.recorded_choice is None else split_choice(self.recorded_choice)[0]

    @property
    def recorded_layout(self) -> str:
        """Return the layout of the recorded choice; empty for the default one."""
        return split_choice(self.recorded_choice or "")[1]


@dataclass(frozen=True, kw_only=True)
class WrittenRepository:
    """A Triton repository, ready to pack."""

    folder: Path
    entry: str
    target: Target
    """Target of the repository; may be more general than the requested one."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parity: tuple[ParityReport, ...]
    cases: Sequence[Case]
    """Test requests for the served archive, with the framework's answers."""
    precision: Precision = "fp32"
    tensorrt: str | None = None
    """TensorRT version that built its engines."""
    candidates: tuple[CandidateReport, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    """Choices of `precision: auto` for the models in an ensemble."""
    environments: tuple[EnvironmentReport, ...] = ()
    max_batch: int | None = None
    """Largest batch if it differs from model.yaml; an ensemble's follows from its models."""
    compared: bool = True
    """Whether the cases have expected answers; else the served archive repeats its own."""
    unverified: tuple[str, ...] = ()
    """Why its answers are unverified; empty if a framework or expected outputs verify them."""
    unused_weights: tuple[str, ...] = ()
    """Unused tensors of the source, grouped."""


class Recipe(ABC, Generic[AnyRecipe]):
    """Builds a repository from a source."""

    tools: tuple[str, ...] = ()
    """Distributions whose versions decide the artifact's bytes."""

    def __init__(self, model: Document[ModelSpec], recipe: AnyRecipe) -> None:
        self._model, self._spec, self._recipe = model, model.record, recipe

    @abstractmethod
    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Export, compare, and write the repository, reporting each step."""


@dataclass(frozen=True)
class ExportedGraph:
    """A graph in its own folder, and its tensors without the batch dimension."""

    file: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batches: bool = True
    """Whether the first dimension of every tensor is the batch."""

    @property
    def size(self) -> str:
        """Its size with its weights, for messages."""
        return f"{folder_bytes(self.file.parent) / 1e6:.1f} MB"

    @property
    def tensors(self) -> str:
        """The names of its inputs and outputs, for messages."""
        return ", ".join(tensor.name for tensor in (*self.inputs, *self.outputs))

    def beside(self, name: str) -> Path:
        """Return the folder of a converted copy."""
        return self.file.parent.with_name(f"{self.file.parent.name}-{name}")


@dataclass(frozen=True, kw_only=True)
class ServableGraph:
    """A graph ready for Triton: compared with the framework, in the requested precision."""

    folder: Path
    """Content of the model's version folder: model.onnx, model.pt, or model.plan, and data files."""
    backend: str
    """Triton backend: onnxruntime, pytorch, tensorrt, or fil."""
    precision: Precision
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parity: ParityReport
    batches: bool = True
    """Whether the first dimension of every tensor is the batch."""
    candidates: tuple[CandidateReport, ...] = ()
    """Candidates tried by `precision: auto`."""
    tensorrt: str | None = None
    """The TensorRT version that built its engines."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """Engine file names by compute capability, if one artifact serves several GPUs."""
    profiles: int = 0
    """Number of optimization profiles in its engines."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Backend parameters required for correct answers."""


def fits_shape(shape: Sequence[int], declared: Sequence[int]) -> bool:
    """Return whether an array's sizes match a tensor's, which may leave some open."""
    return len(shape) == len(declared) and all(
        want in (-1, have) for have, want in zip(shape, declared, strict=True)
    )


def sizes_agree(first: Sequence[int], second: Sequence[int]) -> bool:
    """Return whether two tensors can have the same sizes."""
    return len(first) == len(second) and all(
        size == other or -1 in (size, other) for size, other in zip(first, second, strict=True)
    )


def common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the common sizes, -1 where they differ; None if the ranks differ."""
    if len({len(shape) for shape in shapes}) != 1:
        return None
    return tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True))
