"""The graphs that a precision stands for: which are tried, and what each requires.

On CPUs, `auto` tries the candidates that have won somewhere: the graph unchanged; int8 products, with or
without fused GELU (which is faster depends on the CPU); int8 convolutions. An explicit precision means one
graph on every build machine.

bf16 is excluded: ONNX Runtime has no bf16 products on CPUs. OpenVINO has them but defaults to fp32, and
Triton's onnxruntime backend cannot set that option (src/onnxruntime.cc, r23.12 to r26.03).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model_build.data.cases import Case
from model_build.data.graphs import ExportedGraph
from model_build.graphs.eight_bits import (
    CONVOLUTIONS,
    count_steps,
    has_gelu,
    to_calibrated_int8,
    to_dynamic_int8,
    to_fused_int8,
)
from model_build.graphs.half import to_fp16
from tritonstack.spec.models.tolerance import Precision

Converter = Callable[[ExportedGraph, Path, Sequence[Case]], ExportedGraph]


def as_it_is(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """Return the exported graph unchanged."""
    del folder, cases
    return graph


@dataclass(frozen=True)
class Level:
    """One way to convert a graph."""

    name: str
    precision: Precision
    convert: Converter = as_it_is
    about: str = ""
    """Note for the manifest."""


EVERYWHERE = "weights of 7 bits, so that processors without VNNI (ml.c5, m5, r5 and older) answer the same"

FP32 = Level("fp32", "fp32")
FP16 = Level("fp16", "fp16", to_fp16)
INT8 = Level("int8", "int8", to_dynamic_int8, EVERYWHERE)
INT8_FUSED = Level("int8, GELU fused", "int8", to_fused_int8, EVERYWHERE)
INT8_CALIBRATED = Level("int8, calibrated", "int8", to_calibrated_int8, EVERYWHERE)


def level_of(precision: Literal["fp32", "fp16", "int8"], graph: ExportedGraph) -> Level:
    """Return the level that an explicit precision means in ONNX Runtime."""
    if precision == "int8":
        return candidate_levels(graph)[0]
    return FP16 if precision == "fp16" else FP32


def candidate_levels(graph: ExportedGraph) -> list[Level]:
    """Return candidates that may be faster on a CPU; the first is what `int8` means."""
    if count_steps(graph, CONVOLUTIONS):
        return [INT8_CALIBRATED]
    return [INT8_FUSED, INT8] if has_gelu(graph) else [INT8]
