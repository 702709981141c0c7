"""int8 graphs: 8-bit weights with one scale per channel.

Matrix products are quantized dynamically: input ranges are measured per run. Inputs with a few large channels
are smoothed first. Graphs with convolutions are calibrated with the test inputs, because ONNX Runtime's
dynamic integer convolutions are slower than float ones.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from model_build.data import Array, Case, ExportedGraph
from model_build.errors import ExportError
from model_build.graphs.onnx_files import INLINE_LIMIT, save_converted
from model_build.graphs.running import GraphSession
from tritonstack.base.files import folder_bytes

# Smooth the inputs of matrix products before they are quantized. Transformers have a few channels with large
# values. One scale for a whole input then leaves few steps for all other channels. As in SmoothQuant (Xiao et
# al., 2023), the input of a product is divided by a factor per channel, and the weights are multiplied by it:
# the answers stay the same, and the range gets smaller.
#
# Only inputs that come from a normalization are smoothed: their channels differ most. Dividing the inputs of
# the other products makes their weights uneven, and the answers less accurate. MiniLM, int8, worst cosine of
# 20 sentences: 0.984 unchanged, 0.993 with smoothed normalizations, 0.980 if only the products after GELU are
# smoothed.

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


CONVOLUTIONS = ("Conv",)
_GELU_PARTS = ("Erf", "Tanh")
_FLOAT = {"DefaultTensorType": onnx.TensorProto.FLOAT}
"""Type of values whose type cannot be inferred, because a node is not standard ONNX."""

SEVEN_BITS = True
"""Use 7 of 8 bits on CPUs. CPUs without VNNI (Haswell to Skylake: ml.t2, m4, c4, and some c5, m5, and r5) add
two 8-bit products in 16 bits, which overflows silently with full-range weights, so answers would differ from
those compared here.

Eight bits are slightly more accurate and not faster. MiniLM, not smoothed, 25 sentences, CPU with VNNI:
cosine at least 0.9909 (mean 0.9941) with eight bits, 0.9872 (0.9929) with seven; 227 ms each at batch 8 and
128 tokens; fp32: 586 ms.
"""


def count_steps(graph: ExportedGraph, kinds: Sequence[str]) -> int:
    """Count the nodes of some kinds in the main graph."""
    model = onnx.load(graph.file, load_external_data=False)
    return sum(node.op_type in kinds for node in model.graph.node)


def to_dynamic_int8(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """Quantize matrix products dynamically, with GELU and its bias fused.

    Fusing GELU gains up to 10% or loses up to 20%, depending on the CPU: too little to make the graph depend
    on the build machine. Fusing more is slower and less accurate in int8. In floats, fusing gains nothing
    measurable, so no such graph is tried.
    """
    has_gelu = count_steps(graph, _GELU_PARTS) > 0
    model = _fuse(graph) if has_gelu else onnx.load(graph.file)
    return _quantize_products(graph, model, folder, cases)


def to_calibrated_int8(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """Quantize convolutions and matrix products with ranges calibrated on the test inputs."""
    from onnxruntime.quantization import QuantType  # noqa: PLC0415 - see _quantize_products

    return _calibrate(
        graph,
        folder,
        cases,
        activation_type=QuantType.QUInt8,
        reduce_range=SEVEN_BITS,
        extra_options={"MatMulConstBOnly": True},
    )


def to_int8_for_tensorrt(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """Insert symmetric quantize and dequantize nodes as TensorRT expects; weights stay floats."""
    from onnxruntime.quantization import QuantType  # noqa: PLC0415 - see _quantize_products

    return _calibrate(
        graph,
        folder,
        cases,
        activation_type=QuantType.QInt8,
        reduce_range=False,
        extra_options={
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "AddQDQPairToWeight": True,
            "DedicatedQDQPair": True,
            "QuantizeBias": False,
            "MatMulConstBOnly": True,
        },
    )


def _quantize_products(
    graph: ExportedGraph, model: onnx.ModelProto, folder: Path, cases: Sequence[Case]
) -> ExportedGraph:
    # Imported here because it takes seconds, and a reused artifact does not need it.
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

    folder.mkdir(parents=True)
    quantized = folder / "made.onnx"
    # The library transposes weights and then rejects the shapes recorded here.
    del model.graph.value_info[:]
    smooth(model, cases)
    with _quiet():
        quantize_dynamic(
            model,
            quantized,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=SEVEN_BITS,
            op_types_to_quantize=list(PRODUCTS),
            use_external_data_format=folder_bytes(graph.file.parent) > INLINE_LIMIT,
            extra_options=dict(_FLOAT),
        )
    return _finish(quantized, folder, graph)


def _calibrate(
    graph: ExportedGraph, folder: Path, cases: Sequence[Case], *, extra_options: Mapping[str, Any], **how: Any
) -> ExportedGraph:
    from onnxruntime.quantization import (  # noqa: PLC0415 - see _quantize_products
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quant_pre_process,
        quantize_static,
    )

    class Reader(CalibrationDataReader):  # type: ignore[misc] # the library has no types
        """Yields the test inputs one by one."""

        def __init__(self) -> None:
            self._left = iter([dict(case.inputs) for case in cases])

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self._left, None)

    folder.mkdir(parents=True)
    quantized, prepared = folder / "made.onnx", folder / "prepared.onnx"
    with _quiet():
        # Folds normalization into the preceding convolutions, to quantize them as one.
        large = folder_bytes(graph.file.parent) > INLINE_LIMIT
        quant_pre_process(graph.file, prepared, skip_symbolic_shape=True, save_as_external_data=large)
        quantize_static(
            prepared,
            quantized,
            Reader(),
            use_external_data_format=large,
            quant_format=QuantFormat.QDQ,
            weight_type=QuantType.QInt8,
            per_channel=True,
            calibrate_method=CalibrationMethod.MinMax,
            op_types_to_quantize=[*PRODUCTS, *CONVOLUTIONS],
            extra_options={**_FLOAT, **extra_options},
            **how,
        )
    return _finish(quantized, folder, graph)


def _finish(quantized: Path, folder: Path, graph: ExportedGraph) -> ExportedGraph:
    """Clean the converted graph; raise ExportError if nothing was quantized."""
    model = onnx.load(quantized)
    for file in folder.iterdir():
        file.unlink()
    if not any(node.op_type in ("MatMulInteger", "QuantizeLinear") for node in model.graph.node):
        raise ExportError(
            "the graph has no matrix products with weights, so there is nothing to quantize",
            remedy="use `precision: fp32`",
        )
    return save_converted(ir.from_proto(model), folder, like=graph)


def _fuse(graph: ExportedGraph) -> onnx.ModelProto:
    from onnxruntime.transformers.fusion_options import FusionOptions  # noqa: PLC0415 - as above
    from onnxruntime.transformers.optimizer import optimize_model  # noqa: PLC0415 - as above

    options = FusionOptions("bert")
    for name, value in vars(options).items():
        if name.startswith("enable_") and isinstance(value, bool):
            setattr(options, name, False)
    options.enable_gelu = options.enable_bias_gelu = True
    with _quiet():
        fused: onnx.ModelProto = optimize_model(
            str(graph.file), "bert", optimization_options=options, opt_level=0
        ).model
    imported = {entry.domain for entry in fused.opset_import}
    for domain in sorted({node.domain for node in fused.graph.node} - imported - {""}):
        fused.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    return fused


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the libraries' advice on the root logger."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
