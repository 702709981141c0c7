"""Rules for the files of models: the tensors in config.pbtxt must be those of the graph or the trees.

Follows the ONNX Runtime backend, which rejects a model at load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from model_build.data.shapes import fits_shape
from model_build.errors import ExportError, ModelConfigError, UnsupportedModelError
from model_build.linting.backends import completed
from model_build.linting.findings import Finding, ModelFolder, in_file
from model_build.repository.config import datatype_name
from model_build.repository.existing import filled_in
from tritonstack.base.files import read_json
from tritonstack.base.yaml import suggest
from tritonstack.records.manifests import TensorSpec

_CODE = ModelConfigError.code
LARGEST_GRAPH = 2 << 30
"""protobuf reads no larger file: a larger graph has its weights in other files."""
LARGEST_TREES = 64 << 20
"""Larger files of trees are not read: parsing them takes seconds."""


def graph_rules(model: ModelFolder) -> Iterator[Finding]:
    """Yield findings about the files of a model's latest version."""
    if not model.versions:
        return
    whole = completed(model.config, model.versions)
    file = model.versions[-1] / whole.default_model_filename
    if not whole.default_model_filename or not file.is_file():
        return
    if whole.backend == "onnxruntime" and file.stat().st_size <= LARGEST_GRAPH:
        yield from _graph(model, file)
    elif whole.backend == "fil" and file.suffix == ".json" and file.stat().st_size <= LARGEST_TREES:
        yield from _trees(model, file)


def _graph(model: ModelFolder, file: Path) -> Iterator[Finding]:
    from model_build.graphs.onnx_tensors import graph_tensors  # noqa: PLC0415 - onnx imports slowly

    shown = model.shown / file.relative_to(model.folder)
    try:
        needed = [tensor.name for tensor in graph_tensors(file)[0]]
        inputs, outputs = graph_tensors(file, overridable=True)
    except ExportError as error:
        remedy = error.remedy or "export the graph again"
        yield in_file("error", UnsupportedModelError.code, shown, error.message, remedy)
        return
    for kind, tensors in (("input", inputs), ("output", outputs)):
        declared = list(getattr(model.config, kind))
        if declared:
            yield from _names(model, kind, declared, tensors, shown)
            if kind == "input":
                yield from _missing(model, needed, shown)
            for index, entry in enumerate(declared):
                real = next((tensor for tensor in tensors if tensor.name == entry.name), None)
                if real is not None:
                    yield from _tensor(model, kind, index, entry, real)


def _names(
    model: ModelFolder, kind: str, declared: Sequence[Any], tensors: Sequence[TensorSpec], shown: Path
) -> Iterator[Finding]:
    names = [tensor.name for tensor in tensors]
    for index, entry in enumerate(declared):
        if entry.name and entry.name not in names:
            yield model.error(
                f"{shown.name} has no {kind} {entry.name!r}",
                suggest(entry.name, names, f"the graph has {', '.join(names)}"),
                *(kind, index, "name"),
            )


def _missing(model: ModelFolder, needed: Sequence[str], shown: Path) -> Iterator[Finding]:
    inputs = {entry.name for entry in model.config.input} | filled_in(model.config)
    missing = [name for name in needed if name not in inputs]
    if missing:
        yield model.error(
            f"{shown.name} also has the input {missing[0]!r}", "declare every input of the graph", "input", 0
        )


def _tensor(model: ModelFolder, kind: str, index: int, entry: Any, real: TensorSpec) -> Iterator[Finding]:
    datatype = datatype_name(entry.data_type)
    if datatype != real.datatype:
        text = f"{entry.name!r} is {datatype} here, and {real.datatype} in the graph"
        name = "STRING" if real.datatype == "BYTES" else real.datatype
        yield model.error(text, f"set `data_type: TYPE_{name}`", kind, index, "data_type")
    batch = model.config.max_batch_size > 0
    if batch and real.shape[:1] != (-1,):
        yield model.error(
            f"{entry.name!r} is {list(real.shape)} in the graph, without a variable batch dimension; "
            f"max_batch_size is {model.config.max_batch_size}",
            "set `max_batch_size: 0`, or export the graph with a batch dimension",
            "max_batch_size",
        )
        return
    sizes = list(entry.reshape.shape) if entry.HasField("reshape") else list(entry.dims)
    expected = list(real.shape[1:] if batch else real.shape)
    # A variable size of the graph may be fixed here; the reverse is rejected.
    fits = fits_shape(sizes, expected)
    if not batch and not expected:
        fits = all(size == 1 for size in sizes)  # Triton cannot describe a tensor without dimensions
    if not fits and datatype == real.datatype:
        yield model.error(
            f"{entry.name!r} has dims {sizes} here, and {expected} in the graph"
            + (", without the batch" if batch else ""),
            f"set `dims: {expected}`",
            *(kind, index, "dims"),
        )


def _trees(model: ModelFolder, file: Path) -> Iterator[Finding]:
    """Yield a wrong number of features of an XGBoost model."""
    shown = model.shown / file.relative_to(model.folder)
    try:
        saved = read_json(file)
        features = int(saved["learner"]["learner_model_param"]["num_feature"])
    except (OSError, ValueError, KeyError, TypeError):
        message, remedy = "not an XGBoost model in JSON", "save it with save_model"
        yield in_file("error", UnsupportedModelError.code, shown, message, remedy)
        return
    for index, entry in enumerate(model.config.input):
        if len(entry.dims) == 1 and entry.dims[0] not in (-1, features):
            yield model.error(
                f"{entry.name!r} has {entry.dims[0]} values here, and the trees have {features} features",
                f"set `dims: [ {features} ]`",
                "input",
                index,
                "dims",
            )
