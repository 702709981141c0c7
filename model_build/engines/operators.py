"""Rewrite graphs in operators that an older TensorRT can parse.

The parser of TensorRT 8.6 supports operators up to opset 17 and silently reads newer ones as opset 17. It
ignores the axes input of reductions, so they run over all dimensions and give wrong answers.
"""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from model_build.data.graphs import ExportedGraph
from model_build.errors import EngineError, ExportError
from model_build.graphs.onnx_file import save_converted
from tritonstack.files.model.tensorrt_rules import Version, newest_opset

AXES_BECAME_INPUT = frozenset(
    {
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
        *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    }
)
"""Changed in opset 18. ReduceSum changed earlier, which TensorRT 8.6 supports."""
_STANDARD = ("", "ai.onnx")


def in_readable_operators(graph: ExportedGraph, folder: Path, version: Version) -> ExportedGraph:
    """Return the graph, or a copy in the newest opset that TensorRT reads."""
    newest = newest_opset(version)
    model = ir.load(graph.file)
    opset = max((model.opset_imports.get(domain, 0) for domain in _STANDARD), default=0)
    if newest is None or opset <= newest:
        return graph
    for node in list(model.graph.all_nodes()):
        if node.domain in _STANDARD:
            _rewrite(node)
    RemoveUnusedNodesPass()(model)
    for domain in _STANDARD:
        if domain in model.opset_imports:
            model.opset_imports[domain] = newest
    try:
        return save_converted(model, folder, like=graph)
    except ExportError as error:
        raise EngineError(
            f"TensorRT {'.'.join(map(str, version))} reads ONNX opsets up to {newest}; the "
            f"graph has opset {opset} and cannot be converted: {error.message}",
            remedy=f"save the graph with opset {newest}, or choose triton_release 24.05 or later",
        ) from error


def _rewrite(node: ir.Node) -> None:
    if node.op_type == "Split":
        # The default: equal parts, one per output.
        node.attributes.pop("num_outputs", None)
    if node.op_type not in AXES_BECAME_INPUT:
        return
    spared = node.attributes.pop("noop_with_empty_axes", None)
    scale = node.inputs[1] if len(node.inputs) > 1 else None
    axes = ir.convenience.get_const_tensor(scale) if scale is not None else None
    if scale is not None and axes is None:
        raise EngineError(
            f"{node.op_type} has dynamic axes, which this TensorRT does not support",
            remedy="save the graph with constant axes, or choose triton_release 24.05 or later",
        )
    node.resize_inputs(1)
    if axes is not None and axes.size:
        node.attributes.add(ir.AttrInt64s("axes", axes.numpy().tolist()))
    elif spared is not None and spared.as_int():
        node.op_type = "Identity"
        node.attributes.clear()
