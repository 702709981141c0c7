"""fp16 graphs for GPUs: weights and computation in half precision.

Inputs and outputs keep their types. Nodes whose values exceed fp16's range, or that sum too many numbers for
its 11-bit precision, stay in fp32: those found with the test inputs, and always the kinds below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from model_build.data.cases import Case
from model_build.data.graphs import ExportedGraph
from model_build.graphs.onnx_file import save_converted
from model_build.graphs.running import GraphSession

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
