"""What every recipe is asked for and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from catalog.manifests import ParityReport, TensorSpec
from catalog.targets import Target
from model_build.progress import Steps
from model_build.serving_check import ServedCase
from model_build.sources import FetchedSource


@dataclass(frozen=True)
class Workshop:
    """What a recipe works with."""

    source: FetchedSource
    folder: Path
    """An empty folder that vanishes after the build."""
    cache_dir: Path
    target: Target
    """What was asked for."""


@dataclass(frozen=True, kw_only=True)
class LaidRepository:
    """A Triton repository that is ready to be packed."""

    folder: Path
    entry: str
    target: Target
    """What the repository runs on; it may be wider than what was asked for."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parity: tuple[ParityReport, ...]
    cases: Sequence[ServedCase]
    """What the served archive is asked, and the framework's answers."""


class Recipe(Protocol):
    """One way from a source to a repository."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The distributions whose versions the artifact's bytes depend on."""

    def check_target(self, target: Target) -> None:
        """Refuse a target that this recipe does not build for."""

    def lay_repository(self, workshop: Workshop, steps: Steps) -> LaidRepository:
        """Export, compare, and lay the repository, telling of each step."""
