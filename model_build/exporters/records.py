"""What exporters give, in a module that imports no framework."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from catalog.manifests import TensorSpec


@dataclass(frozen=True)
class ExportedGraph:
    """A graph in a folder of its own, and its tensors without the batch dimension."""

    file: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
