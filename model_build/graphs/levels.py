"""The graphs that a precision stands for: which are tried, and what each requires.

On CPUs, `auto` tries the graph unchanged, in bf16, and in int8 (products, or convolutions). A precision means
one graph on every build machine, so `auto` has one candidate for each: two nearly equally fast forms of the
same precision would win in turns.

bf16 runs in Triton's openvino backend: ONNX Runtime has no bf16 products on CPUs, and Triton's onnxruntime
backend cannot ask OpenVINO for them (src/onnxruntime.cc, r23.12 to r26.03).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper
from onnx_ir.passes.common import RemoveUnusedNodesPass

from model_build.data import Case, ExportedGraph
from model_build.graphs.eight_bits import (
    CONVOLUTIONS,
    count_steps,
    to_calibrated_int8,
    to_dynamic_int8,
)
from model_build.graphs.onnx_files import save_converted
from model_build.graphs.openvino_session import OpenVinoSession, computes_bf16
from model_build.graphs.running import GraphSession, LoadedGraph
from tritonstack.files.model.backend_rules import OPENVINO
from tritonstack.files.model.tolerance import Precision

# fp16 graphs for GPUs: weights and computation in half precision. Inputs and outputs keep their types. Nodes
# whose values exceed fp16's range, or that sum too many numbers for its 11-bit precision, stay in fp32: those
# found with the test inputs, and always the kinds below.

ADDING_UP = (
    *("CumSum", "Exp", "Log", "Pow"),
    *("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "ReduceSumSquare"),
)
SAFE = float(np.finfo(np.float16).max) / 4
"""A quarter of fp16's range: users send more than the test inputs."""
MASK = -1e30
"""Masks hold the lowest number of the type; the lowest fp16 number masks as well."""


def to_fp16(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """Convert the graph to half precision."""
    # Part of onnxruntime; imports slowly.
    from onnxruntime.transformers import float16  # noqa: PLC0415

    with _named_copy(graph) as file:
        converted = float16.convert_float_to_float16(
            # By file: in-memory type inference fails above protobuf's size limit.
            str(file),
            keep_io_types=True,
            op_block_list=[*float16.DEFAULT_OP_BLOCK_LIST, *ADDING_UP],
            node_block_list=steps_out_of_range(file, cases),
        )
    _drop_repeats(converted)
    model = ir.from_proto(converted)
    _drop_detours(model)
    return save_converted(model, folder, like=graph)


@contextmanager
def _named_copy(graph: ExportedGraph) -> Iterator[Path]:
    """Copy the graph next to its weights, with a name for every node."""
    model = onnx.load(graph.file, load_external_data=False)
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{number}"
    copy = graph.file.with_name("named.onnx")
    onnx.save(model, copy)
    try:
        yield copy
    finally:
        copy.unlink()


def steps_out_of_range(file: Path, cases: Sequence[Case]) -> list[str]:
    """Return the nodes whose values exceed fp16's range with the test inputs."""
    model = onnx.load(file, load_external_data=False)
    large = _large_values(model, file.with_name("probe.onnx"), cases)
    return [node.name for node in model.graph.node if large.intersection([*node.input, *node.output])]


def _drop_repeats(model: onnx.ModelProto) -> None:
    """Deduplicate the casts that the converter adds per fp32 node under one name."""
    names: set[str] = set()
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Cast" and names.issuperset(node.output):
            continue
        names.update(node.output)
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _drop_detours(model: ir.Model) -> None:
    """Remove fp16 round trips between two fp32 nodes."""
    for node in list(model.graph.all_nodes()):
        source = node.inputs[0] if _casts(node, ir.DataType.FLOAT) else None
        before = source.producer() if source else None
        spared = before.inputs[0] if before and _casts(before, ir.DataType.FLOAT16) else None
        if spared is None:
            continue
        (result,) = node.outputs
        if result.is_graph_output():
            node.op_type = "Identity"
            node.attributes.clear()
            node.replace_input_with(0, spared)
        else:
            ir.convenience.replace_all_uses_with(result, spared)
    RemoveUnusedNodesPass()(model)


def _casts(node: ir.Node, to: ir.DataType) -> bool:
    return node.op_type == "Cast" and node.attributes["to"].as_int() == to


def _large_values(model: onnx.ModelProto, probe: Path, cases: Sequence[Case]) -> set[str]:
    """Return the values beyond the safe range, with every value exposed as an output."""
    floats = onnx.TensorProto.FLOAT
    shapes = {value.name: value for value in onnx.shape_inference.infer_shapes(model).graph.value_info}
    inner = [value for value in shapes.values() if value.type.tensor_type.elem_type == floats]
    names = [value.name for value in inner]
    names += [value.name for value in model.graph.output if value.type.tensor_type.elem_type == floats]
    for value in inner:
        # Without the inferred sizes, which may be wrong.
        model.graph.output.append(onnx.helper.make_tensor_value_info(value.name, floats, None))
    onnx.save(model, probe)
    try:
        session = GraphSession(probe)
        return {
            name
            for case in cases
            for name, array in session.answer(case.inputs, names).items()
            if _is_large(array)
        }
    finally:
        probe.unlink()


def _is_large(array: np.ndarray) -> bool:
    numbers = array[np.isfinite(array) & (array > MASK)]
    return bool(numbers.size and np.abs(numbers).max() > SAFE)


# Run a graph in ONNX Runtime with the inputs of all products rounded to bf16. Judges bf16 on processors on
# which OpenVINO computes in fp32. The errors are those of OpenVINO on processors with bf16: MiniLM, 24 texts:
# cosine 0.99997 and relative error 0.008 both ways.

PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose")


def rounded_session(file: Path) -> GraphSession:
    """Load the graph with rounded products."""
    model = onnx.load(file, load_external_data=False)
    _round(model)
    copy = file.with_name("rounded.onnx")  # beside its weights
    onnx.save(model, copy)
    try:
        return GraphSession(copy)
    finally:
        copy.unlink()


def _round(model: onnx.ModelProto) -> None:
    graph = model.graph
    inferred = onnx.shape_inference.infer_shapes(model).graph
    floats = {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT}
    floats |= {
        value.name
        for value in (*inferred.value_info, *inferred.input)
        if value.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    nodes, rounded = [], {}
    for node in graph.node:
        if node.op_type in PRODUCTS:
            for place, name in enumerate(node.input):
                if name not in floats:
                    continue
                if name not in rounded:
                    short, rounded[name] = f"{name}.bf16", f"{name}.rounded"
                    nodes += [
                        helper.make_node("Cast", [name], [short], to=TensorProto.BFLOAT16),
                        helper.make_node("Cast", [short], [rounded[name]], to=TensorProto.FLOAT),
                    ]
                node.input[place] = rounded[name]
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


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
