"""Prepare graphs for TensorRT: int8 quantization, supported operators, and integer types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from model_build.data import Case, ExportedGraph
from model_build.errors import EngineError, ExportError
from model_build.graphs.eight_bits import to_int8_for_tensorrt
from model_build.graphs.onnx_files import save_converted
from tritonstack.files.model.backend_rules import INT64, Version, newest_opset, tensor_types
from tritonstack.files.model.tolerance import Precision
from tritonstack.files.records.manifests import TensorSpec

# Rewrite graphs in operators that an older TensorRT can parse. The parser of TensorRT 8.6 supports operators
# up to opset 17 and silently reads newer ones as opset 17. It ignores the axes input of reductions, so they
# run over all dimensions and give wrong answers.

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


def graph_for_engine(
    graph: ExportedGraph, *, precision: Precision, version: Version, cases: Sequence[Case]
) -> ExportedGraph:
    """Return the graph for trtexec; its inputs and outputs have the engine's types."""
    prepared = graph
    if precision == "int8":
        prepared = to_int8_for_tensorrt(graph, graph.beside("int8"), cases)
    if version < INT64 and any(
        tensor.datatype == "INT64" for tensor in (*prepared.inputs, *prepared.outputs)
    ):
        prepared = with_narrow_integers(prepared, prepared.beside("int32"))
    prepared = in_readable_operators(prepared, prepared.beside("older"), version)
    _check_types(prepared, version)
    return prepared


def _check_types(graph: ExportedGraph, version: Version) -> None:
    types = tensor_types(version)
    unknown = [tensor for tensor in (*graph.inputs, *graph.outputs) if tensor.datatype not in types]
    if unknown:
        raise EngineError(
            f"TensorRT {'.'.join(map(str, version))} does not support the tensor types of "
            + ", ".join(f"{tensor.name} ({tensor.datatype})" for tensor in unknown),
            remedy=f"save the graph with inputs and outputs of {', '.join(sorted(types))}, or set "
            "`format: onnx`",
        )


def with_narrow_integers(graph: ExportedGraph, folder: Path) -> ExportedGraph:
    """Return the graph with int32 in place of int64 inputs and outputs, for TensorRT before 10.

    The casts are part of the graph, so the compared, configured, and served types agree.
    """
    model = onnx.load(graph.file)
    # Older graphs list their weights among the inputs.
    names = {tensor.name for tensor in graph.inputs}
    for value in model.graph.input:
        if _is_wide(value) and value.name in names:
            inner = f"{value.name}.wide"
            _rename(model, value.name, inner, ends="input")
            model.graph.node.insert(0, _cast(value.name, inner, onnx.TensorProto.INT64))
            value.type.tensor_type.elem_type = onnx.TensorProto.INT32
    for value in model.graph.output:
        if _is_wide(value):
            inner = f"{value.name}.wide"
            _rename(model, value.name, inner, ends="output")
            model.graph.node.append(_cast(inner, value.name, onnx.TensorProto.INT32))
            value.type.tensor_type.elem_type = onnx.TensorProto.INT32
    narrow = save_converted(ir.from_proto(model), folder, like=graph)
    return replace(narrow, inputs=_narrowed(graph.inputs), outputs=_narrowed(graph.outputs))


def cases_for(cases: Sequence[Case], graph: ExportedGraph) -> list[Case]:
    """Cast cases to the types of a graph."""
    types = {
        tensor.name: np.int32 for tensor in (*graph.inputs, *graph.outputs) if tensor.datatype == "INT32"
    }
    return [
        replace(
            case,
            inputs={name: array.astype(types.get(name, array.dtype)) for name, array in case.inputs.items()},
        )
        for case in cases
    ]


def _narrowed(tensors: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(
        tensor.model_copy(update={"datatype": "INT32"}) if tensor.datatype == "INT64" else tensor
        for tensor in tensors
    )


def _is_wide(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == onnx.TensorProto.INT64)


def _cast(source: str, result: str, to: int) -> onnx.NodeProto:
    return onnx.helper.make_node("Cast", [source], [result], to=to)


def _rename(model: onnx.ModelProto, old: str, new: str, *, ends: str) -> None:
    """Rename a value in the nodes that read it and, for an output, in the node that writes it."""
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        if ends == "output":
            node.output[:] = [new if name == old else name for name in node.output]
