"""Load a user's ONNX graph: copy it with its data, check it, and read its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx.external_data_helper import uses_external_data

from model_build.errors import UnsupportedModelError
from model_build.graphs.onnx_files import load_graph, shape_of, tensor_of
from model_build.graphs.running import session_options
from model_build.library_errors import brief
from model_build.store.archive import is_safe_name
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.source_files import copy_from
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import TensorSpec

GRAPH_NAME = "model.onnx"


def copy_graph(source: Path, name: str, folder: Path) -> Path:
    """Copy the graph to model.onnx in `folder`, with its weight files."""
    original = source / name
    graph = load_graph(original)
    data = sorted(set(_external_files(graph)))
    for item in data:
        if not is_safe_name(item):
            raise UnsupportedModelError(
                f"{name}: {item!r} is not a safe file name for external weights",
                remedy="save the graph again with all data in one file next to it",
            )
        if not (original.parent / item).is_file():
            raise UnsupportedModelError(
                f"{name}: the external weights file {item} is missing",
                remedy="put it next to the graph; fetched data files are <graph>.data, "
                "<graph>_data, *.data, and *.weights",
            )
    folder.mkdir(parents=True)
    copy_from(source, name, folder / GRAPH_NAME)
    for item in data:
        (folder / item).parent.mkdir(parents=True, exist_ok=True)
        copy_from(source, f"{name.rpartition('/')[0]}/{item}", folder / item)
    _check(folder / GRAPH_NAME, name)
    return folder / GRAPH_NAME


def read_tensors(
    model: Document[ModelSpec], file: Path, *, batches: bool
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return inputs and outputs, without any batch dimension."""
    graph = load_graph(file).graph
    # Older graphs list weights as inputs with a default.
    weights = {tensor.name for tensor in graph.initializer}
    sizes = [
        (value.name, shape_of(value)) for value in (*graph.input, *graph.output) if value.name not in weights
    ]
    if batches:
        reject(_unbatched(model, sizes))
    begin = 1 if batches else 0
    inputs = tuple(tensor_of(value, begin) for value in graph.input if value.name not in weights)
    return inputs, tuple(tensor_of(value, begin) for value in graph.output)


def start_session(file: Path) -> Any:
    """Load the graph in ONNX Runtime on the CPU."""
    import onnxruntime  # noqa: PLC0415 - takes time to import, and a build that finds its artifact needs it not

    options = session_options(exact=True)
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise UnsupportedModelError(
            f"ONNX Runtime cannot load the graph: {brief(error)}", remedy=_load_help(error)
        ) from error


_CHECK_INPUTS = "correct the shapes and types of the test inputs, or the graph"


def ask_session(
    session: Any, names: Sequence[str], inputs: Mapping[str, Any], *, remedy: str = _CHECK_INPUTS
) -> dict[str, Any]:
    """Run the graph; raise ExportError on failure."""
    try:
        return dict(zip(names, session.run(list(names), dict(inputs)), strict=True))
    except Exception as error:
        raise UnsupportedModelError(f"the graph fails: {brief(error)}", remedy=remedy) from error


def _load_help(error: Exception) -> str:
    if any(sign in str(error) for sign in ("NOT_IMPLEMENTED", "not a registered", "opset")):
        return "use operators that ONNX Runtime supports"
    return "export the graph again, and check it with onnx.checker.check_model(file, full_check=True)"


def _external_files(model: onnx.ModelProto) -> Iterator[str]:
    for tensor in _tensors_of(model.graph):
        if uses_external_data(tensor):
            yield next(entry.value for entry in tensor.external_data if entry.key == "location")


def _tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _tensors_of(inner)


def _check(file: Path, name: str) -> None:
    try:
        onnx.checker.check_model(str(file))
    except Exception as error:
        raise UnsupportedModelError(
            f"{name} is not valid ONNX: {brief(error)}",
            remedy=f"export it again with onnx {onnx.__version__} or earlier",
        ) from error


def _unbatched(
    model: Document[ModelSpec], sizes: Sequence[tuple[str, tuple[int, ...]]]
) -> Iterator[FileViolation]:
    fixed = [f"{name} {list(shape)}" for name, shape in sizes if shape[:1] != (-1,)]
    if fixed:
        # A tokenizer or an image decoder in front of the graph needs batches.
        alone = getattr(model.record.recipe, "input", "tensors") == "tensors"
        without = "set `batching: {max_batch: 0}`, or " if alone else ""
        yield model.violation(
            ModelMismatchError,
            ("batching", "max_batch"),
            f"these tensors have no variable first dimension: {', '.join(fixed)}",
            f"{without}export the graph with a variable batch dimension",
        )
