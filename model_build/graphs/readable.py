"""Graphs that the ONNX Runtime of every Triton release reads which an artifact serves.

A newer runtime reads older files, never the other way round. An artifact for processors serves every
release; one for a GPU serves the one in its target. Exporters stamp graphs with the newest opset they know;
where none of its steps has changed since an older one, the graph is of that just as well.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import onnx

from model_build.errors import ExportError
from model_build.graphs.records import ExportedGraph
from tritonstack.reference.releases import RELEASES, TritonRelease
from tritonstack.reference.targets import Target, release_of

_STANDARD = ("", "ai.onnx")
_OLD_TYPES = range(onnx.TensorProto.BFLOAT16 + 1)
"""Types that every file format which is still read has; those after them came with newer formats."""


def make_readable(graph: ExportedGraph, target: Target) -> ExportedGraph:
    """The graph itself, or a copy in an older opset or file format where that loses nothing.

    Raises ExportError for operators that a release does not have.
    """
    model = onnx.load(graph.file, load_external_data=False)
    oldest = min(_served(target), key=lambda release: (release.onnx.opset, release.onnx.ir_version))
    newest_format = oldest.onnx.ir_version
    lowered = _lower_opset(model, oldest)
    if model.ir_version <= newest_format and not lowered:
        return graph
    if model.ir_version > newest_format and any(kind not in _OLD_TYPES for kind in _types(model.graph)):
        raise ExportError(
            f"the graph has types of file format {model.ir_version}, and Triton {oldest.name} (ONNX Runtime "
            f"{oldest.onnxruntime}) reads formats up to {newest_format}",
            remedy="save the graph with weights of other types",
        )
    folder = graph.file.parent.with_name(f"{graph.file.parent.name}-readable")
    shutil.copytree(graph.file.parent, folder)
    model.ir_version = min(model.ir_version, newest_format)
    onnx.save(model, folder / graph.file.name)
    return replace(graph, file=folder / graph.file.name)


def _lower_opset(model: onnx.ModelProto, oldest: TritonRelease) -> bool:
    """Whether the opset had to be lowered, which it now is."""
    newest = oldest.onnx.opset
    every = [*model.opset_import, *(entry for part in model.functions for entry in part.opset_import)]
    imports = [entry for entry in every if entry.domain in _STANDARD]
    opset = max((int(entry.version) for entry in imports), default=0)
    if opset <= newest:
        return False
    newer = sorted({kind for kind in _kinds(model) if _known_since(kind, opset) > newest})
    if newer:
        raise ExportError(
            f"the graph has {', '.join(newer)} of opset {opset}, and Triton {oldest.name} (ONNX Runtime "
            f"{oldest.onnxruntime}) reads opsets up to {newest}",
            remedy=f"save the graph with opset {newest} or lower",
        )
    for entry in imports:
        entry.version = min(entry.version, newest)
    return True


def _kinds(model: onnx.ModelProto) -> Iterator[str]:
    """Operators of ONNX's own, in functions and in branches too."""
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
    """The opset in which an operator became what it is in a later one."""
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
    named = release_of(str(target))
    return (RELEASES[named],) if named else tuple(RELEASES.values())
