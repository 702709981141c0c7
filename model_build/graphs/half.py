"""fp16: weights and computation in half precision, for GPUs.

Inputs and outputs keep their types. What would leave fp16's range, or add up too many numbers for its eleven
digits, stays in fp32: single steps as the test inputs show, and the kinds below always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from model_build.checking.cases import Case
from model_build.graphs.onnx_file import save_converted
from model_build.graphs.records import ExportedGraph
from model_build.graphs.running import Session

ADDING_UP = (
    *("CumSum", "Exp", "Log", "Pow"),
    *("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "ReduceSumSquare"),
)
SAFE = float(np.finfo(np.float16).max) / 4
"""Half of fp16's range, twice: users send other things than the test inputs."""
MASK = -1e30
"""Masks are as low as the type goes; in fp16 they become its own lowest number, which masks as well."""


def to_fp16(graph: ExportedGraph, folder: Path, cases: Sequence[Case]) -> ExportedGraph:
    """The graph in half precision."""
    # Part of onnxruntime's wheel; takes its time.
    from onnxruntime.transformers import float16  # noqa: PLC0415

    with _named_copy(graph) as file:
        converted = float16.convert_float_to_float16(
            # By its file: the types of a model that protobuf cannot carry cannot be inferred in memory.
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
    """A copy of the graph beside its weights, in which every step has a name."""
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
    """The nodes that take or make numbers for which fp16 is too small, as the test inputs show."""
    model = onnx.load(file, load_external_data=False)
    large = _large_values(model, file.with_name("probe.onnx"), cases)
    return [node.name for node in model.graph.node if large.intersection([*node.input, *node.output])]


def _drop_repeats(model: onnx.ModelProto) -> None:
    """The converter casts a value anew for each step that stays in fp32, under the same name each time."""
    made: set[str] = set()
    kept = []
    for node in model.graph.node:
        if node.op_type == "Cast" and made.issuperset(node.output):
            continue
        made.update(node.output)
        kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _drop_detours(model: ir.Model) -> None:
    """Between two steps that stay in fp32, the converter goes to fp16 and back: what was to be spared."""
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
    """Names of values beyond the safe range in any case, found by making every value an output."""
    floats = onnx.TensorProto.FLOAT
    known = {value.name: value for value in onnx.shape_inference.infer_shapes(model).graph.value_info}
    inner = [value for value in known.values() if value.type.tensor_type.elem_type == floats]
    names = [value.name for value in inner]
    names += [value.name for value in model.graph.output if value.type.tensor_type.elem_type == floats]
    for value in inner:
        # Without the sizes: they were inferred, and need not hold.
        model.graph.output.append(onnx.helper.make_tensor_value_info(value.name, floats, None))
    onnx.save(model, probe)
    try:
        session = Session(probe)
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
