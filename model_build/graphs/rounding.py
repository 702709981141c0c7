"""Run a graph in ONNX Runtime with the inputs of all products rounded to bf16.

Judges bf16 on processors on which OpenVINO computes in fp32. The errors are those of OpenVINO on processors
with bf16: MiniLM, 24 texts: cosine 0.99997 and relative error 0.008 both ways.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from model_build.graphs.running import GraphSession

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
