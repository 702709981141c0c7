"""Lower a graph's opset and file format to what the artifact's Triton releases read.

Newer runtimes read older files, not the reverse. A CPU artifact serves every release; a GPU artifact serves
the one in its target. Exporters use the newest opset; if no operator has changed since an older one, the
graph is valid in the older one too.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import onnx

from model_build.data.graphs import ExportedGraph
from model_build.errors import UnsupportedModelError
from tritonstack.facts.releases import RELEASES, TritonRelease
from tritonstack.facts.targets import Target, release_of

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
    folder = graph.file.parent.with_name(f"{graph.file.parent.name}-readable")
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
