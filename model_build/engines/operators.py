"""Graphs in the operators that the ONNX parser of an older TensorRT reads.

The parser of TensorRT 8.6 knows operators up to opset 17, and does not refuse later ones: it reads them as
those of opset 17. Sums and means then run over all dimensions instead of one, for it does not look at the
second input that says which; an engine is built, and its answers are wrong.
"""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from model_build.errors import EngineError, ExportError
from model_build.graphs.onnx_file import save_converted
from model_build.graphs.records import ExportedGraph
from tritonstack.spec.models.tensorrt_rules import Version, newest_opset

AXES_BECAME_INPUT = frozenset(
    {
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
        *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    }
)
"""With opset 18; for ReduceSum earlier, and TensorRT 8.6 knows of that."""
_STANDARD = ("", "ai.onnx")


def in_readable_operators(graph: ExportedGraph, folder: Path, version: Version) -> ExportedGraph:
    """The graph itself, or a copy in the newest operators that TensorRT reads."""
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
            f"TensorRT {'.'.join(map(str, version))} reads ONNX operators up to opset {newest}, and the "
            f"graph of opset {opset} cannot be written in these: {error.message}",
            remedy=f"save the graph with opset {newest}, or choose a triton_release from 24.05 on",
        ) from error


def _rewrite(node: ir.Node) -> None:
    if node.op_type == "Split":
        # Equal parts, as many as there are outputs, are what it means without.
        node.attributes.pop("num_outputs", None)
    if node.op_type not in AXES_BECAME_INPUT:
        return
    spared = node.attributes.pop("noop_with_empty_axes", None)
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = ir.convenience.get_const_tensor(given) if given is not None else None
    if given is not None and axes is None:
        raise EngineError(
            f"{node.op_type} takes its axes from another step, which this TensorRT cannot read",
            remedy="save the graph with axes that are fixed, or choose a triton_release from 24.05 on",
        )
    node.resize_inputs(1)
    if axes is not None and axes.size:
        node.attributes.add(ir.AttrInt64s("axes", axes.numpy().tolist()))
    elif spared is not None and spared.as_int():
        node.op_type = "Identity"
        node.attributes.clear()
