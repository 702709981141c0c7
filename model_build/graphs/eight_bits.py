"""int8: weights of eight bits, a scale for each channel.

Matrix products are quantised while they run (`dynamic`): their inputs' ranges are measured each time. Graphs
with convolutions are quantised with ranges that the test inputs have shown (`calibrated`), because
ONNX Runtime's convolutions of integers with ranges measured each time are slower than those of floats.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from model_build.checking.cases import Case
from model_build.errors import ExportError
from model_build.graphs.onnx_file import INLINE_LIMIT, folder_bytes, save_converted
from model_build.graphs.records import ExportedGraph

PRODUCTS = ("MatMul", "Gemm")
CONVOLUTIONS = ("Conv",)
_GELU_PARTS = ("Erf", "Tanh")
_FLOAT = {"DefaultTensorType": onnx.TensorProto.FLOAT}
"""What values are whose type cannot be inferred, because a step is none of ONNX's own."""

SEVEN_BITS = True
"""Of the eight, on processors. Those without VNNI (Haswell to Skylake: ml.t2, m4, c4, and some of c5, m5 and
r5, where nobody can choose) add two products of 8 bits in 16, where full weights overflow in silence: there
the answers would not be those that were compared here.

Eight bits are a little nearer to the framework and no faster. MiniLM, 25 sentences, on a processor with VNNI:
cosine at least 0.9909, 0.9941 on average with eight bits; 0.9872 and 0.9929 with seven; at batch 8 and 128
tokens 227 ms each, where fp32 takes 586.
"""


def count_steps(graph: ExportedGraph, kinds: Sequence[str]) -> int:
    """How many steps of some kinds there are, in the main graph."""
    model = onnx.load(graph.file, load_external_data=False)
    return sum(node.op_type in kinds for node in model.graph.node)


def to_dynamic_int8(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """Matrix products in integers, their inputs' ranges measured in every run."""
    del cases
    return _quantize_products(graph, onnx.load(graph.file), folder)


def to_fused_int8(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """The same, with GELU and the bias before it as one step.

    That saves a tenth of the time at batch 8. More must not be fused: the fully fused graph is slower in
    integers, and less accurate. Layer normalisation is one step already in what exporters write. In floats,
    fusing gains nothing that can be measured, so no such graph is tried.
    """
    del cases
    return _quantize_products(graph, _fuse(graph), folder)


def to_calibrated_int8(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """Convolutions and matrix products in integers, with ranges that the test inputs have shown."""
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
    """Steps that quantise and back, spelt out as TensorRT wants them: symmetric, weights kept as floats."""
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


def _quantize_products(graph: ExportedGraph, model: onnx.ModelProto, folder: Path) -> ExportedGraph:
    # Imported here because it takes seconds, and a build that finds its artifact does not need it.
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

    folder.mkdir(parents=True)
    made = folder / "made.onnx"
    # The library turns weights around, and then finds that they are not of the shapes noted here.
    del model.graph.value_info[:]
    with _quiet():
        quantize_dynamic(
            model,
            made,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=SEVEN_BITS,
            op_types_to_quantize=list(PRODUCTS),
            use_external_data_format=folder_bytes(graph.file.parent) > INLINE_LIMIT,
            extra_options=dict(_FLOAT),
        )
    return _finish(made, folder, graph)


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
        """Gives the test inputs one after the other."""

        def __init__(self) -> None:
            self._left = iter([dict(case.inputs) for case in cases])

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self._left, None)

    folder.mkdir(parents=True)
    made, prepared = folder / "made.onnx", folder / "prepared.onnx"
    with _quiet():
        # Folds normalisation into the convolutions before them, which quantises them as one.
        large = folder_bytes(graph.file.parent) > INLINE_LIMIT
        quant_pre_process(graph.file, prepared, skip_symbolic_shape=True, save_as_external_data=large)
        quantize_static(
            prepared,
            made,
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
    return _finish(made, folder, graph)


def _finish(made: Path, folder: Path, graph: ExportedGraph) -> ExportedGraph:
    """Clean what the library wrote; says so where it found nothing to do."""
    model = onnx.load(made)
    for file in folder.iterdir():
        file.unlink()
    if not any(node.op_type in ("MatMulInteger", "QuantizeLinear") for node in model.graph.node):
        raise ExportError("the graph has no weights that are multiplied, so there is nothing to quantise")
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


def has_gelu(graph: ExportedGraph) -> bool:
    """Whether there may be something to fuse."""
    return count_steps(graph, _GELU_PARTS) > 0


@contextmanager
def _quiet() -> Iterator[None]:
    """The libraries advise on the root logger; their advice is not for the user of this one."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
