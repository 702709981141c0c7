"""Write ONNX graphs so that their bytes depend only on the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import onnx_ir as ir

from model_build.data.graphs import ExportedGraph
from model_build.errors import UnsupportedModelError
from tritonstack.files.records.manifests import TensorSpec

GRAPH_NAME = "model.onnx"
WEIGHTS_NAME = "model.onnx.data"
OPSET = 18
# The oldest file format with this opset: all supported Triton releases read it.
IR_VERSION = 8
# protobuf is limited to 2 GiB; larger weights go to a separate file.
INLINE_LIMIT = 1_500_000_000

_OTHER_EXPORT = "export the model yourself, and use a recipe of kind onnx; or use a recipe of kind python"
_DATATYPES = {ir.DataType.INT64: "INT64", ir.DataType.FLOAT: "FP32"}


def save_graph(model: ir.Model, folder: Path) -> ExportedGraph:
    """Clean, write, and check a graph."""
    _strip(model)
    model.ir_version = IR_VERSION
    _check_opset(model)
    file = _write(model, folder)
    return ExportedGraph(
        file,
        inputs=tuple(_tensor(value) for value in model.graph.inputs),
        outputs=tuple(_tensor(value) for value in model.graph.outputs),
    )


def save_foreign(model: ir.Model, folder: Path) -> Path:
    """Clean, write, and check a graph of another library, which may use operator sets of its own."""
    _strip(model)
    model.ir_version = IR_VERSION
    return _write(model, folder)


def save_converted(model: ir.Model, folder: Path, *, like: ExportedGraph) -> ExportedGraph:
    """Write a converted graph: cleaned, in its file format, with the same tensors."""
    model.graph.sort()
    _strip(model)
    model.ir_version = onnx.load(like.file, load_external_data=False).ir_version
    return replace(like, file=_write(model, folder))


def _write(model: ir.Model, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / GRAPH_NAME
    large = _weight_bytes(model) > INLINE_LIMIT
    ir.save(model, file, external_data=WEIGHTS_NAME if large else None)
    try:
        onnx.checker.check_model(str(file))
    except onnx.checker.ValidationError as error:
        raise UnsupportedModelError(
            f"the exporter wrote an invalid graph: {error}", remedy=_OTHER_EXPORT
        ) from error
    return file


def _strip(model: ir.Model) -> None:
    """Remove machine-specific data: stack traces, paths, tool versions, inferred shapes."""
    model.producer_name = model.producer_version = model.domain = model.doc_string = None
    model.metadata_props.clear()
    model.graph.metadata_props.clear()
    model.graph.doc_string = None
    _rename_constants(model.graph)
    values = {id(value) for value in (*model.graph.inputs, *model.graph.outputs)}
    for value in (*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()):
        _strip_value(value)
    for number, node in enumerate(model.graph.all_nodes()):
        node.name = f"{node.op_type}_{number}"
        node.doc_string = None
        node.metadata_props.clear()
        for position, value in enumerate(node.outputs):
            _strip_value(value)
            if id(value) not in values:
                # Exporters may reuse output names for nodes, and number symbolic sizes per process. Runtimes
                # infer the shapes again.
                value.name = f"{node.name}.{position}"
                value.shape = value.type = None


def _rename_constants(graph: ir.Graph) -> None:
    """Rename constants with the name of an output: exporters name a folded node as its operation."""
    for name in {value.name for value in graph.outputs if value.name} & set(graph.initializers):
        constant = graph.initializers[name]
        if not any(value is constant for value in graph.outputs):
            del graph.initializers[name]
            constant.name = f"{name}.constant"
            graph.register_initializer(constant)


def _strip_value(value: ir.Value) -> None:
    value.doc_string = None
    value.metadata_props.clear()


def _weight_bytes(model: ir.Model) -> int:
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def _check_opset(model: ir.Model) -> None:
    opsets = dict(model.opset_imports)
    if opsets != {"": OPSET}:
        raise UnsupportedModelError(
            f"the exporter wrote the operator sets {opsets}; expected opset {OPSET} only",
            remedy=_OTHER_EXPORT,
        )


def _tensor(value: ir.Value) -> TensorSpec:
    if value.name is None or value.dtype not in _DATATYPES or value.shape is None:
        raise UnsupportedModelError(
            f"the graph's tensor {value} has no name, no shape, or an unsupported type",
            remedy=_OTHER_EXPORT,
        )
    sizes = tuple(size if isinstance(size, int) else -1 for size in value.shape)
    if sizes[:1] != (-1,):
        raise UnsupportedModelError(
            f"the batch dimension of {value.name} is fixed: {sizes}", remedy=_OTHER_EXPORT
        )
    return TensorSpec(name=value.name, datatype=_DATATYPES[value.dtype], shape=sizes[1:])
