"""Smooth the inputs of matrix products before they are quantized.

Transformers have a few channels with large values. One scale for a whole input then leaves few steps for all
other channels. As in SmoothQuant (Xiao et al., 2023), the input of a product is divided by a factor per
channel, and the weights are multiplied by it: the answers stay the same, and the range gets smaller.

Only inputs that come from a normalization are smoothed: their channels differ most. Dividing the inputs of
the other products makes their weights uneven, and the answers less accurate. MiniLM, int8, worst cosine of 20
sentences: 0.984 unchanged, 0.993 with smoothed normalizations, 0.980 if only the products after GELU are
smoothed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from model_build.data.cases import Case
from model_build.graphs.running import GraphSession

Array = NDArray[Any]

STRENGTH = 0.6
"""Share of the range that moves to the weights. MiniLM: 0.993 with 0.6; 0.990 with 0.5; 0.991 with 0.7."""
SMALLEST = 1e-5
"""Lower bound of ranges: a channel may be zero in all cases."""
NORMALIZATIONS = ("LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization")
PRODUCTS = ("MatMul", "Gemm")


@dataclass(frozen=True)
class _Smoothed:
    """A normalized value, and the products that read it."""

    value: str
    products: Sequence[Any]


def smooth(model: onnx.ModelProto, cases: Sequence[Case]) -> None:
    """Smooth the inputs of all products of `model` that read normalized values, in place.

    The ranges come from `cases`. A graph without such products stays unchanged.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    values = list(_smoothable(model, weights))
    if not values:
        return
    ranges = _ranges(model, [smoothed.value for smoothed in values], cases)
    for number, smoothed in enumerate(values):
        _apply(model, smoothed, weights, ranges[smoothed.value], number)


def _smoothable(model: onnx.ModelProto, weights: Mapping[str, Any]) -> Iterator[_Smoothed]:
    """Yield the normalized values whose products have weights that nothing else reads."""
    readers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for node in model.graph.node:
        if node.op_type not in NORMALIZATIONS:
            continue
        products = [
            reader
            for reader in readers.get(node.output[0], [])
            if _multiplies(reader, node.output[0], weights) and len(readers[reader.input[1]]) == 1
        ]
        if products:
            yield _Smoothed(node.output[0], products)


def _multiplies(node: Any, value: str, weights: Mapping[str, Any]) -> bool:
    """Return whether the node multiplies `value` by two-dimensional weights."""
    if node.op_type not in PRODUCTS or node.input[0] != value or node.input[1] not in weights:
        return False
    is_plain = node.op_type == "MatMul" or not _attribute(node, "transA")
    return is_plain and len(weights[node.input[1]].dims) == 2


def _attribute(node: Any, name: str) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), 0)


def _ranges(model: onnx.ModelProto, values: Sequence[str], cases: Sequence[Case]) -> dict[str, Array]:
    """Return the largest absolute value per channel, of each of `values`, over all cases."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(helper.make_empty_tensor_value_info(value) for value in values)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "watched.onnx"
        onnx.save(watched, file, save_as_external_data=True, location="watched.onnx.data")
        session = GraphSession(file)
        ranges: dict[str, Array] = {}
        for case in cases:
            for name, array in session.answer(case.inputs, values).items():
                largest = np.abs(array).reshape(-1, array.shape[-1]).max(axis=0)
                ranges[name] = np.maximum(ranges.get(name, SMALLEST), largest)
    return ranges


def _apply(
    model: onnx.ModelProto, smoothed: _Smoothed, weights: Mapping[str, Any], largest: Array, number: int
) -> None:
    """Divide the value by factors per channel, and multiply the weights of its products by them."""
    arrays = {product.input[1]: _rows(product, weights) for product in smoothed.products}
    heaviest = np.max([np.abs(array).max(axis=1) for array in arrays.values()], axis=0)
    factors = largest**STRENGTH / np.maximum(heaviest, SMALLEST) ** (1 - STRENGTH)
    factors = (factors / np.exp(np.log(factors).mean())).astype(np.float32)
    for product in smoothed.products:
        name = product.input[1]
        scaled = arrays[name] * factors[:, None]
        scaled = scaled.T if _is_transposed(product) else scaled
        weights[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(scaled), name))
    factor_name, divided = f"smoothing_{number}", f"smoothed_{number}"
    model.graph.initializer.append(numpy_helper.from_array(1 / factors, factor_name))
    first = min(list(model.graph.node).index(product) for product in smoothed.products)
    model.graph.node.insert(first, helper.make_node("Mul", [smoothed.value, factor_name], [divided]))
    for product in smoothed.products:
        product.input[0] = divided


def _rows(product: Any, weights: Mapping[str, Any]) -> Array:
    """Return the weights with one row per channel of the input."""
    array = numpy_helper.to_array(weights[product.input[1]])
    return array.T if _is_transposed(product) else array


def _is_transposed(product: Any) -> bool:
    return product.op_type == "Gemm" and bool(_attribute(product, "transB"))
