"""Merge `tensors` of model.yaml with the tensors of the graph or of the test inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from model_build.data import Array, common_shape, fits_shape
from model_build.errors import ModelInputError
from model_build.inputs.inline import datatype_of
from model_build.inputs.rows import Row
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.yaml import Document, FieldPath, suggest
from tritonstack.files.model.fields import TensorNarrowing
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import TensorSpec

Tensors = tuple[TensorSpec, ...]


def narrow_tensors(
    model: Document[ModelSpec], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[Tensors, Tensors]:
    """Add model.yaml's sizes and labels to a graph's tensors; report contradictions.

    Unknown names, here or under `accept.outputs`, are errors too.
    """
    specs = [*inputs, *outputs]
    narrowings = model.record.tensors
    violations = [
        *_unknown_names(model, ("tensors",), narrowings, specs),
        *_unknown_names(model, ("accept", "outputs"), model.record.accept.outputs, outputs),
    ]
    for spec in specs:
        violations += _contradictions(model, spec, is_output=spec in outputs)
    reject(violations)
    return (
        tuple(_narrowed(spec, narrowings.get(spec.name)) for spec in inputs),
        tuple(_narrowed(spec, narrowings.get(spec.name)) for spec in outputs),
    )


def tensors_of_rows(model: Document[ModelSpec], rows: Sequence[Row], *, outputs: bool = False) -> Tensors:
    """Return the tensors in all rows; sizes that differ, or that model.yaml leaves open, are -1."""
    rows_arrays = [(row, row.outputs if outputs else row.inputs) for row in rows]
    first_row, first_arrays = rows_arrays[0]
    results = [_common_tensor(model, name, rows_arrays) for name in first_arrays]
    violations = [result for result in results if isinstance(result, FileViolation)]
    for row, arrays in rows_arrays:
        violations += [
            model.violation(
                ModelInputError, row.path, f"{name} is missing in {first_row.name}", "add it to every row"
            )
            for name in arrays
            if name not in first_arrays
        ]
    reject(violations)
    return tuple(result for result in results if isinstance(result, TensorSpec))


def _common_tensor(
    model: Document[ModelSpec], name: str, rows_arrays: Sequence[tuple[Row, Mapping[str, Array]]]
) -> TensorSpec | FileViolation:
    """Return the tensor that fits the arrays of all rows, or why there is none."""
    for row, arrays in rows_arrays:
        if name not in arrays:
            return model.violation(ModelInputError, row.path, f"{name} is missing", "add it to every row")
    narrowing = model.record.tensors.get(name, TensorNarrowing())
    first_row, first_arrays = rows_arrays[0]
    datatype = datatype_of(first_arrays[name])
    shape = common_shape([arrays[name].shape for _, arrays in rows_arrays])
    if datatype is None or any(datatype_of(arrays[name]) != datatype for _, arrays in rows_arrays):
        return model.violation(
            ModelInputError, first_row.path, f"{name} has several types", "use one type in all rows"
        )
    if shape is None:
        return model.violation(
            ModelInputError, first_row.path, f"{name} has different ranks", "use one rank in all rows"
        )
    if narrowing.shape is not None:
        for row, arrays in rows_arrays:
            if not fits_shape(arrays[name].shape, narrowing.shape):
                return model.violation(
                    ModelMismatchError,
                    ("tensors", name, "shape"),
                    f"{list(narrowing.shape)} does not match {row.name}: {list(arrays[name].shape)}",
                    "correct one of them; -1 means any size",
                )
        shape = narrowing.shape
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def _contradictions(
    model: Document[ModelSpec], spec: TensorSpec, *, is_output: bool
) -> Iterator[FileViolation]:
    narrowing = model.record.tensors.get(spec.name)
    if narrowing is None:
        return
    path: FieldPath = ("tensors", spec.name)
    if narrowing.datatype is not None and narrowing.datatype != spec.datatype:
        yield model.violation(
            ModelMismatchError,
            (*path, "datatype"),
            f"{spec.name} is {spec.datatype} in the model, got {narrowing.datatype}",
            "remove or correct it",
        )
    if narrowing.shape is not None and not _is_narrower(narrowing.shape, spec.shape):
        yield model.violation(
            ModelMismatchError,
            (*path, "shape"),
            f"{list(narrowing.shape)} contradicts the model's {spec.name}: {list(spec.shape)}",
            "replace only sizes that are -1 in the model, without the batch dimension",
        )
    if narrowing.labels is None:
        return
    last_size = (narrowing.shape or spec.shape or (0,))[-1]
    if not is_output:
        yield model.violation(
            ModelMismatchError, (*path, "labels"), f"{spec.name} is an input", "label outputs only"
        )
    elif last_size not in (-1, len(narrowing.labels)):
        yield model.violation(
            ModelMismatchError,
            (*path, "labels"),
            f"expected {last_size} labels for {spec.name}, got {len(narrowing.labels)}",
            "list one label per value, in order",
        )


def _is_narrower(shape: tuple[int, ...], graph_shape: tuple[int, ...]) -> bool:
    """Return whether a shape only fixes sizes that are -1; -1 keeps a size."""
    return len(shape) == len(graph_shape) and all(
        size in (-1, graph_size) or graph_size == -1
        for size, graph_size in zip(shape, graph_shape, strict=True)
    )


def _narrowed(spec: TensorSpec, narrowing: TensorNarrowing | None) -> TensorSpec:
    if narrowing is None:
        return spec
    shape = spec.shape
    if narrowing.shape is not None:
        shape = tuple(
            graph_size if size == -1 else size
            for size, graph_size in zip(narrowing.shape, spec.shape, strict=True)
        )
    return TensorSpec(
        name=spec.name, datatype=spec.datatype, shape=shape, labels=narrowing.labels or spec.labels
    )


def _unknown_names(
    model: Document[ModelSpec], path: FieldPath, names: Iterable[str], specs: Sequence[TensorSpec]
) -> Iterator[FileViolation]:
    declared = [spec.name for spec in specs]
    for name in names:
        if name not in declared:
            yield model.violation(
                ModelMismatchError,
                (*path, name),
                f"unknown tensor {name!r}; the model has {', '.join(declared)}",
                suggest(name, declared, "remove it or correct its name"),
            )
