"""The graphs that a precision stands for: which are tried, and what each requires.

On CPUs, `auto` tries the graph unchanged, in bf16, and in int8 (products, or convolutions). A precision means
one graph on every build machine, so `auto` has one candidate for each: two nearly equally fast forms of the
same precision would win in turns.

bf16 runs in Triton's openvino backend: ONNX Runtime has no bf16 products on CPUs, and Triton's onnxruntime
backend cannot ask OpenVINO for them (src/onnxruntime.cc, r23.12 to r26.03).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from model_build.data.cases import Case
from model_build.data.graphs import ExportedGraph
from model_build.graphs.eight_bits import (
    CONVOLUTIONS,
    count_steps,
    to_calibrated_int8,
    to_dynamic_int8,
)
from model_build.graphs.half import to_fp16
from model_build.graphs.openvino_session import OpenVinoSession, computes_bf16
from model_build.graphs.rounding import rounded_session
from model_build.graphs.running import GraphSession, LoadedGraph
from tritonstack.files.model.openvino_rules import OPENVINO
from tritonstack.files.model.tolerance import Precision

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
    backend: str = "onnxruntime"
    """Triton backend that runs the graph."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the backend that the precision requires."""

    def session(self, graph: ExportedGraph, *, threads: int = 0) -> LoadedGraph:
        """Load a graph of this level.

        With `threads`, it computes as its backend does on this processor; else as on every processor.
        """
        if self.backend == OPENVINO:
            session = OpenVinoSession(graph.file, threads=threads, by_row=graph.batches)
            return session if threads or computes_bf16() else rounded_session(graph.file)
        return GraphSession(graph.file, threads=threads, exact=not threads)


EVERYWHERE = "weights of 7 bits, so that processors without VNNI (ml.c5, m5, r5 and older) answer the same"

FP32 = Level("fp32", "fp32")
FP16 = Level("fp16", "fp16", to_fp16)
BF16 = Level(
    "bf16",
    "bf16",
    about="in OpenVINO; CPUs without AVX-512 compute in fp32",
    backend=OPENVINO,
    parameters={"HINT_BF16": "YES"},
)
INT8 = Level("int8", "int8", to_dynamic_int8, EVERYWHERE)
INT8_CALIBRATED = Level("int8, calibrated", "int8", to_calibrated_int8, EVERYWHERE)


def level_of(precision: Precision, graph: ExportedGraph) -> Level:
    """Return the level that an explicit precision means for an ONNX graph."""
    if precision == "int8":
        return INT8_CALIBRATED if count_steps(graph, CONVOLUTIONS) else INT8
    return {"fp32": FP32, "fp16": FP16, "bf16": BF16}[precision]


def candidate_levels(graph: ExportedGraph) -> list[Level]:
    """Return candidates that may be faster on a CPU, the most accurate first."""
    return [BF16, level_of("int8", graph)]
