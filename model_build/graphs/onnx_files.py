"""Read and write ONNX graphs; the bytes of a written graph depend only on the model."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from model_build.data import ExportedGraph
from model_build.errors import UnsupportedModelError
from model_build.model_files import foreign_format
from tritonstack.facts.releases import RELEASES, TritonRelease
from tritonstack.facts.targets import Target, release_of
from tritonstack.files.records.manifests import TensorSpec

_TYPES = {
    onnx.TensorProto.FLOAT: "FP32",
    onnx.TensorProto.DOUBLE: "FP64",
    onnx.TensorProto.FLOAT16: "FP16",
    onnx.TensorProto.BFLOAT16: "BF16",
    onnx.TensorProto.BOOL: "BOOL",
    onnx.TensorProto.STRING: "BYTES",
    **{getattr(onnx.TensorProto, f"INT{bits}"): f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(onnx.TensorProto, f"UINT{bits}"): f"UINT{bits}" for bits in (8, 16, 32, 64)},
}


def graph_tensors(file: Path) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return a graph's inputs and outputs with all dimensions; weights stay unread."""
    graph = load_graph(file).graph
    _reject_maps(graph, file)
    weights = {tensor.name for tensor in graph.initializer}  # older graphs list them as inputs
    inputs = tuple(tensor_of(value, 0) for value in graph.input if value.name not in weights)
    return inputs, tuple(tensor_of(value, 0) for value in graph.output)


def _reject_maps(graph: onnx.GraphProto, file: Path) -> None:
    """Reject probabilities as maps, which converters of classifiers add, with the lines that remove them."""
    outputs = {output.name for output in graph.output}
    for node in graph.node:
        if node.op_type != "ZipMap" or node.output[0] not in outputs:
            continue
        classes = max(len(attribute.ints) + len(attribute.strings) for attribute in node.attribute)
        name, new = node.output[0], f"{file.stem}-tensors.onnx"
        raise UnsupportedModelError(
            f"the graph's {name} is a sequence of maps; Triton serves tensors only",
            remedy='return the tensor that its node ZipMap gets: `python -c "import onnx; '
            f"m = onnx.load('{file}'); g = m.graph; z = next(n for n in g.node if n.output[0] == '{name}'); "
            f"o = next(o for o in g.output if o.name == '{name}'); g.node.remove(z); "
            f"o.CopyFrom(onnx.helper.make_tensor_value_info(z.input[0], 1, ['batch', {classes}])); "
            f"onnx.save(m, '{file.with_name(new)}')\"`, and use {new}",
        )


def load_graph(file: Path) -> onnx.ModelProto:
    """Read a graph without its external weights; raise ExportError if the file is none."""
    try:
        return onnx.load(str(file), load_external_data=False)
    except DecodeError as error:
        foreign = foreign_format(file) if file.suffix != ".onnx" else None
        if foreign is not None:
            raise UnsupportedModelError(
                f"{file.name} is {foreign.kind}, not an ONNX graph", remedy=foreign.remedy
            ) from error
        raise UnsupportedModelError(
            f"{file.name} is not an ONNX graph: {error}",
            remedy="set the .onnx file of an exporter",
        ) from error


def shape_of(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Return all dimensions of a tensor, -1 if variable; raise ExportError if it has no rank."""
    if not value.type.HasField("tensor_type"):
        kind = str(value.type.WhichOneof("value")).removesuffix("_type")
        raise UnsupportedModelError(
            f"the graph's {value.name} is a {kind}; Triton serves tensors only",
            remedy="export the graph with a tensor instead",
        )
    if not value.type.tensor_type.HasField("shape"):
        raise UnsupportedModelError(
            f"the graph does not declare the rank of {value.name}",
            remedy="run onnx.shape_inference, or export the graph with shapes",
        )
    return tuple(
        size.dim_value if size.HasField("dim_value") else -1 for size in value.type.tensor_type.shape.dim
    )


def tensor_of(value: onnx.ValueInfoProto, begin: int) -> TensorSpec:
    """Return a tensor without the dimensions before `begin`."""
    datatype = _TYPES.get(value.type.tensor_type.elem_type)
    if datatype is None:
        name = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        raise UnsupportedModelError(
            f"the graph's {value.name} has type {name}, which Triton does not support",
            remedy="add a Cast to a supported type, such as FLOAT or INT64, and export the graph again",
        )
    return TensorSpec(name=value.name, datatype=datatype, shape=shape_of(value)[begin:])


# Lower a graph's opset and file format to what the artifact's Triton releases read. Newer runtimes read older
# files, not the reverse. A CPU artifact serves every release; a GPU artifact serves the one in its target.
# Exporters use the newest opset; if no operator has changed since an older one, the graph is valid in the
# older one too.

_STANDARD = ("", "ai.onnx")
_OLD_TYPES = range(onnx.TensorProto.BFLOAT16 + 1)
"""Types in every supported file format; later ones came with newer formats."""


def make_readable(graph: ExportedGraph, target: Target) -> ExportedGraph:
    """Return the graph, or a copy in an older opset or file format if that loses nothing.

    Raises ExportError for operators that a release lacks.
    """
    model = onnx.load(graph.file, load_external_data=False)
    oldest = min(_served(target), key=lambda release: (release.onnx.opset, release.onnx.ir_version))
    newest_format = oldest.onnx.ir_version
    lowered = _lower_opset(model, oldest)
    if model.ir_version <= newest_format and not lowered:
        return graph
    if model.ir_version > newest_format and any(kind not in _OLD_TYPES for kind in _types(model.graph)):
        raise UnsupportedModelError(
            f"the graph has types of file format {model.ir_version}; Triton {oldest.name} (ONNX Runtime "
            f"{oldest.onnxruntime}) reads formats up to {newest_format}",
            remedy="save the graph with other weight types",
        )
    folder = graph.beside("readable")
    shutil.copytree(graph.file.parent, folder)
    model.ir_version = min(model.ir_version, newest_format)
    onnx.save(model, folder / graph.file.name)
    return replace(graph, file=folder / graph.file.name)


def _lower_opset(model: onnx.ModelProto, oldest: TritonRelease) -> bool:
    """Lower the opset if needed; return whether it changed."""
    newest = oldest.onnx.opset
    every = [*model.opset_import, *(entry for part in model.functions for entry in part.opset_import)]
    imports = [entry for entry in every if entry.domain in _STANDARD]
    opset = max((int(entry.version) for entry in imports), default=0)
    if opset <= newest:
        return False
    newer = sorted({kind for kind in _kinds(model) if _known_since(kind, opset) > newest})
    if newer:
        raise UnsupportedModelError(
            f"the graph uses {', '.join(newer)} of opset {opset}; Triton {oldest.name} (ONNX Runtime "
            f"{oldest.onnxruntime}) reads opsets up to {newest}",
            remedy=f"save the graph with opset {newest} or lower",
        )
    for entry in imports:
        entry.version = min(entry.version, newest)
    return True


def _kinds(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the standard operators, including those in functions and branches."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from _kinds_among(nodes)


def _kinds_among(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    for node in nodes:
        if node.domain in _STANDARD:
            yield node.op_type
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _kinds_among(inner.node)


def _known_since(kind: str, opset: int) -> int:
    """Return the opset that last changed an operator."""
    try:
        return int(onnx.defs.get_schema(kind, max_inclusive_version=opset).since_version)
    except onnx.defs.SchemaError:
        return opset


def _types(graph: onnx.GraphProto) -> Iterator[int]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.type.tensor_type.elem_type
    for tensor in graph.initializer:
        yield tensor.data_type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t.data_type
            if attribute.HasField("g"):
                yield from _types(attribute.g)


def _served(target: Target) -> Collection[TritonRelease]:
    version = release_of(str(target))
    return (RELEASES[version],) if version else tuple(RELEASES.values())


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
