"""The graphs that a precision can mean on a machine: which are tried, and what each needs.

On processors `auto` tries the few that have won somewhere: the graph as it is; products in integers, with
GELU fused or without it (which is faster depends on the processor); convolutions in integers; OpenVINO in
bf16. A precision that is named means one graph, the same on every machine that builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from catalog.accepting import Precision
from model_build.cases import Case
from model_build.graphs.eight_bits import (
    CONVOLUTIONS,
    count_steps,
    has_gelu,
    to_calibrated_int8,
    to_dynamic_int8,
    to_fused_int8,
)
from model_build.graphs.half import to_fp16
from model_build.graphs.records import ExportedGraph
from model_build.graphs.running import ON_PROCESSOR, Providers

OPENVINO = "OpenVINOExecutionProvider"
AMX_FLAG = "amx_bf16"
PROCESSOR_FILE = Path("/proc/cpuinfo")

Converter = Callable[[ExportedGraph, Path, Sequence[Case]], ExportedGraph]


def as_it_is(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """The exported graph, byte for byte."""
    del folder, cases
    return graph


@dataclass(frozen=True)
class Level:
    """One way to run a graph."""

    name: str
    precision: Precision
    convert: Converter = as_it_is
    providers: Providers = ON_PROCESSOR
    accelerator: str | None = None
    """What ONNX Runtime hands the graph to."""
    missing: Callable[[], str | None] = lambda: None
    """What this machine lacks to run it, in words."""


def bf16_missing() -> str | None:
    """What bf16 on a processor needs and is not here."""
    lacking = []
    if AMX_FLAG not in PROCESSOR_FILE.read_text(encoding="utf-8").split():
        lacking.append("a processor with AMX (families m7i, c7i and r7i)")
    if OPENVINO not in _providers():
        lacking.append("an ONNX Runtime with OpenVINO")
    return f"bf16 on processors needs {' and '.join(lacking)}; not on this machine" if lacking else None


FP32 = Level("fp32", "fp32")
FP16 = Level("fp16", "fp16", to_fp16)
# The same options as Triton's onnxruntime backend gives OpenVINO: the device, and nothing else.
BF16 = Level(
    "bf16 by OpenVINO",
    "bf16",
    providers=((OPENVINO, {"device_type": "CPU"}), "CPUExecutionProvider"),
    accelerator="openvino",
    missing=bf16_missing,
)
INT8 = Level("int8", "int8", to_dynamic_int8)
INT8_FUSED = Level("int8, GELU fused", "int8", to_fused_int8)
INT8_CALIBRATED = Level("int8, calibrated", "int8", to_calibrated_int8)


def level_of(precision: Precision, graph: ExportedGraph) -> Level:
    """What a precision that is named means for a graph."""
    if precision == "int8":
        return _int8_levels(graph)[0]
    return {"fp32": FP32, "fp16": FP16, "bf16": BF16}[precision]


def rivals(graph: ExportedGraph) -> list[Level]:
    """What may be faster on a processor than the graph as it is."""
    return [*_int8_levels(graph), BF16]


def _int8_levels(graph: ExportedGraph) -> list[Level]:
    if count_steps(graph, CONVOLUTIONS):
        return [INT8_CALIBRATED]
    return [INT8_FUSED, INT8] if has_gelu(graph) else [INT8]


@cache
def _providers() -> tuple[str, ...]:
    import onnxruntime  # noqa: PLC0415 - takes time, and a build that finds its artifact needs it not

    return tuple(onnxruntime.get_available_providers())
