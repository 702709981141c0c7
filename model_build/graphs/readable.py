"""Graphs that the ONNX Runtime of every Triton release reads which an artifact serves.

A newer runtime reads older files, never the other way round. An artifact for processors serves every
release; one for a GPU serves the one in its target.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from dataclasses import replace

import onnx

from catalog.releases import RELEASES, TritonRelease
from catalog.targets import Target, release_of
from model_build.errors import ExportError
from model_build.graphs.records import ExportedGraph

_STANDARD = ("", "ai.onnx")
_OLD_TYPES = range(onnx.TensorProto.BFLOAT16 + 1)
"""Types that every file format which is still read has; those after them came with newer formats."""


def make_readable(graph: ExportedGraph, target: Target) -> ExportedGraph:
    """The graph itself, or a copy in an older file format where that loses nothing.

    Raises ExportError for operators that a release does not have.
    """
    model = onnx.load(graph.file, load_external_data=False)
    releases = _served(target)
    _check_operators(model, releases)
    oldest = min(releases, key=lambda release: release.onnx.ir_version)
    newest_format = oldest.onnx.ir_version
    if model.ir_version <= newest_format:
        return graph
    if any(kind not in _OLD_TYPES for kind in _types(model.graph)):
        raise ExportError(
            f"the graph has types of file format {model.ir_version}, and Triton {oldest.name} (ONNX Runtime "
            f"{oldest.onnxruntime}) reads formats up to {newest_format}",
            remedy="save the graph with weights of other types",
        )
    folder = graph.file.parent.with_name(f"{graph.file.parent.name}-readable")
    shutil.copytree(graph.file.parent, folder)
    model.ir_version = newest_format
    onnx.save(model, folder / graph.file.name)
    return replace(graph, file=folder / graph.file.name)


def _check_operators(model: onnx.ModelProto, releases: Collection[TritonRelease]) -> None:
    opset = max((int(entry.version) for entry in model.opset_import if entry.domain in _STANDARD), default=0)
    for release in releases:
        if opset > release.onnx.opset:
            raise ExportError(
                f"the graph has opset {opset}, and Triton {release.name} (ONNX Runtime "
                f"{release.onnxruntime}) reads opsets up to {release.onnx.opset}",
                remedy=f"save the graph with opset {release.onnx.opset} or lower",
            )


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
