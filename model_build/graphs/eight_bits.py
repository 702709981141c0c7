"""int8 graphs: 8-bit weights with one scale per channel.

Matrix products are quantized dynamically: input ranges are measured per run. Inputs with a few large channels
are smoothed first (smoothing.py). Graphs with convolutions are calibrated with the test inputs, because ONNX
Runtime's dynamic integer convolutions are slower than float ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from model_build.data.cases import Case
from model_build.data.graphs import ExportedGraph
from model_build.errors import ExportError
from model_build.graphs.onnx_file import INLINE_LIMIT, save_converted
from model_build.graphs.smoothing import smooth
from tritonstack.base.files import folder_bytes

PRODUCTS = ("MatMul", "Gemm")
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
