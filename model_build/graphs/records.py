"""What exporters give and what is served of it, in a module that imports no framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tritonstack.records.manifests import CandidateReport, ParityReport, TensorSpec
from tritonstack.spec.models.tolerance import Precision


@dataclass(frozen=True)
class ExportedGraph:
    """A graph in a folder of its own, and its tensors without the batch dimension."""

    file: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batches: bool = True
    """Whether the first dimension of every tensor is the batch."""


@dataclass(frozen=True, kw_only=True)
class ServableGraph:
    """What Triton will run of a graph: compared with the framework, in the precision that was asked for."""

    folder: Path
    """What becomes the model's version folder: model.onnx, model.pt, model.plan, and files beside them."""
    backend: str
    """Triton's name for what runs it: onnxruntime, pytorch, tensorrt, fil."""
    precision: Precision
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parity: ParityReport
    batches: bool = True
    """Whether the first dimension of every tensor is the batch."""
    candidates: tuple[CandidateReport, ...] = ()
    """The graphs that were tried."""
    tensorrt: str | None = None
    """The TensorRT version that built its engines."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """File names of engines by compute capability, where one artifact serves several GPUs."""
    profiles: int = 0
    """How many optimisation profiles its engines have."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters that its backend needs to run it rightly."""
