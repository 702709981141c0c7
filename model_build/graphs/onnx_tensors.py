"""Read the tensors of an ONNX graph; weights stay unread."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from model_build.errors import UnsupportedModelError
from model_build.foreign_formats import foreign_format
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


def graph_tensors(
    file: Path, *, overridable: bool = False
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return a graph's inputs and outputs with all dimensions; weights stay unread.

    `overridable` adds weights that callers may send, which older graphs list as inputs.
    """
    graph = load_graph(file).graph
    _reject_maps(graph, file)
    weights = set() if overridable else {tensor.name for tensor in graph.initializer}
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
