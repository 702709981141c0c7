"""Interface of all recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from model_build.data.cases import Case
from model_build.progress import BuildSteps
from model_build.sources import FetchedSource
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tolerance import Precision
from tritonstack.files.records.manifests import (
    CandidateReport,
    EnvironmentReport,
    ParityReport,
    TensorSpec,
    split_choice,
)
from tritonstack.triton import TritonInstallation


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


class Recipe(Protocol):
    """Builds a repository from a source."""

    @property
    def tools(self) -> tuple[str, ...]:
        """Distributions whose versions decide the artifact's bytes."""

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Export, compare, and write the repository, reporting each step."""
