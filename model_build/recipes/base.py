"""What every recipe is asked for and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from model_build.checking.cases import Case
from model_build.progress import Steps
from model_build.sources import FetchedSource
from tritonstack.base.documents import Document
from tritonstack.records.manifests import CandidateReport, EnvironmentReport, ParityReport, TensorSpec
from tritonstack.reference.targets import Target
from tritonstack.runtime import TritonInstallation
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.tolerance import Precision


@dataclass(frozen=True)
class BuildContext:
    """What a recipe works with."""

    model: Document[ModelSpec]
    source: FetchedSource
    folder: Path
    """An empty folder that vanishes after the build."""
    cache_dir: Path
    target: Target
    """What was asked for."""
    installation: TritonInstallation
    """The server that the archive will be checked with."""
    build_member: Callable[[str], Path]
    """Builds another model for the same target, and gives the folder of its artifact."""
    shared_cache: str | None = None
    """`s3://bucket/prefix` where builds on several machines keep timing caches and engines for each other."""
    recorded_choice: str | None = None
    """The graph that `precision: auto` chose in an earlier build of the same files."""

    @property
    def model_folder(self) -> Path:
        """Where model.yaml lies, and the files that belong to it."""
        return self.model.file.parent


@dataclass(frozen=True, kw_only=True)
class WrittenRepository:
    """A Triton repository that is ready to be packed."""

    folder: Path
    entry: str
    target: Target
    """What the repository runs on; it may be wider than what was asked for."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parity: tuple[ParityReport, ...]
    cases: Sequence[Case]
    """What the served archive is asked, and the framework's answers."""
    precision: Precision = "fp32"
    tensorrt: str | None = None
    """The TensorRT version that built its engines."""
    candidates: tuple[CandidateReport, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    """What `precision: auto` chose for the models that a pipeline is made of."""
    environments: tuple[EnvironmentReport, ...] = ()
    max_batch: int | None = None
    """The largest batch, where it is not what model.yaml says: a pipeline's follows from its models."""
    unverified: tuple[str, ...] = ()
    """Why nothing proves its answers right; empty if a framework or right answers in model.yaml do."""
    unused_weights: tuple[str, ...] = ()
    """Tensors of the source that the model does not use, in groups."""


class Recipe(Protocol):
    """One way from a source to a repository."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The distributions whose versions the artifact's bytes depend on."""

    def write_repository(self, context: BuildContext, steps: Steps) -> WrittenRepository:
        """Export, compare, and lay the repository, telling of each step."""
