"""Records of exported and servable graphs, importable without a framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tritonstack.files.model.tolerance import Precision
from tritonstack.files.records.manifests import CandidateReport, ParityReport, TensorSpec


@dataclass(frozen=True)
class ExportedGraph:
    """A graph in its own folder, and its tensors without the batch dimension."""

    file: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batches: bool = True
    """Whether the first dimension of every tensor is the batch."""


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
