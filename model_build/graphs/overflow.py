"""Find 8-bit weights whose sums overflow on x86 processors without VNNI.

Those processors add two products of 8 bits in 16 bits (VPMADDUBSW), which saturates silently. Triton's ONNX
Runtime backend cannot ask for the exact, slower sums, so such a graph answers differently there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir
from google.protobuf.message import DecodeError

SEVEN_BITS = 64
"""The largest absolute weight that cannot overflow: 255 * (64 + 64) < 2**15."""
_PRODUCTS = frozenset(
    {
        *("MatMul", "Gemm", "Conv", "ConvTranspose", "MatMulInteger", "ConvInteger", "QLinearMatMul"),
        *("QLinearConv", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm", "QAttention"),
        *("DynamicQuantizeLSTM", "FusedMatMul", "FusedGemm", "FusedConv"),
    }
)
_PASSED = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity"}
)
_MATRIX = 2
"""The fewest dimensions of weights; scales and zero points have fewer."""


def can_overflow(file: Path) -> bool:
    """Return whether a product of the graph reads signed weights of more than 7 bits."""
    try:
        graph = ir.load(file).graph
    except DecodeError:
        return False  # not a graph: whoever serves it reports that
    if any(_is_wide(value) and _feeds_product(value) for value in _constants(graph)):
        return True
    return any(_quantizes_weights(node) and _feeds_product(node.outputs[0]) for node in graph.all_nodes())


def _constants(graph: ir.Graph) -> Iterator[ir.Value]:
    for part in (graph, *graph.subgraphs()):
        yield from part.initializers.values()
    for node in graph.all_nodes():
        if node.op_type == "Constant":
            yield node.outputs[0]


def _tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    return None if value is None else ir.convenience.get_const_tensor(value)


def _is_wide(value: ir.Value) -> bool:
    tensor = _tensor(value)
    if tensor is None or tensor.dtype != ir.DataType.INT8 or len(tensor.shape) < _MATRIX:
        return False
    return bool(np.abs(tensor.numpy().astype(np.int16)).max(initial=0) > SEVEN_BITS)


def _quantizes_weights(node: ir.Node) -> bool:
    """Return whether the node quantizes constant floats to signed integers, which use all 8 bits."""
    if node.op_type != "QuantizeLinear":
        return False
    weights = _tensor(node.inputs[0])
    zero = _tensor(node.inputs[2]) if len(node.inputs) > _MATRIX else None
    datatype = node.attributes.get("output_dtype")
    is_signed = (zero is not None and zero.dtype == ir.DataType.INT8) or (
        datatype is not None and datatype.as_int() == ir.DataType.INT8
    )
    return weights is not None and len(weights.shape) >= _MATRIX and is_signed


def _feeds_product(value: ir.Value) -> bool:
    """Return whether the value reaches a product, past nodes that only rearrange or rescale it."""
    return any(
        use.node.op_type in _PRODUCTS
        or (use.node.op_type in _PASSED and use.idx == 0 and _feeds_product(use.node.outputs[0]))
        for use in value.uses()
    )
