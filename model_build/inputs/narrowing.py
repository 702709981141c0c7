"""Merge `tensors` of model.yaml with the tensors of the graph or of the test inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model_build.data.shapes import common_shape, fits_shape
from model_build.errors import ModelInputError
from model_build.inputs.rows import Array, Row
from model_build.inputs.types import datatype_of
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.yaml import Document, FieldPath, suggest
from tritonstack.records.manifests import TensorSpec
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.model_fields import TensorNarrowing

Tensors = tuple[TensorSpec, ...]


def narrow_tensors(
    model: Document[ModelSpec], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[Tensors, Tensors]:
    """Add model.yaml's sizes and labels to a graph's tensors; report contradictions.

    Unknown names, here or under `accept.outputs`, are errors too.
    """
    declared = [*inputs, *outputs]
    reject(
        [
            *_unknown(model, ("tensors",), list(model.record.tensors), [spec.name for spec in declared]),
            *_unknown(
                model,
                ("accept", "outputs"),
                list(model.record.accept.outputs),
                [spec.name for spec in outputs],
            ),
            *(
                violation
                for spec in declared
                for violation in _contradictions(model, spec, is_output=spec in outputs)
            ),
        ]
    )
    narrowings = model.record.tensors
    return (
        tuple(_narrowed(spec, narrowings.get(spec.name)) for spec in inputs),
        tuple(_narrowed(spec, narrowings.get(spec.name)) for spec in outputs),
    )


def tensors_of_rows(model: Document[ModelSpec], rows: Sequence[Row], *, outputs: bool = False) -> Tensors:
    """Return the tensors in all rows; sizes that differ, or that model.yaml leaves open, are -1."""
    parts = [(row, row.outputs if outputs else row.inputs) for row in rows]
    violations: list[FileViolation] = []
    tensors = []
    for name in parts[0][1]:
        lacking = next((row for row, arrays in parts if name not in arrays), None)
        if lacking is not None:
            violations.append(
                model.violation(ModelInputError, lacking.path, f"{name} is missing", "add it to every row")
            )
            continue
        tensor = _tensor(model, name, [(row, arrays[name]) for row, arrays in parts])
        if isinstance(tensor, FileViolation):
            violations.append(tensor)
        else:
            tensors.append(tensor)
    for row, arrays in parts:
        violations += [
            model.violation(
                ModelInputError, row.path, f"{name} is missing in {parts[0][0].name}", "add it to every row"
            )
            for name in arrays
            if name not in parts[0][1]
        ]
    reject(violations)
    return tuple(tensors)


def _tensor(
    model: Document[ModelSpec], name: str, arrays: Sequence[tuple[Row, Array]]
) -> TensorSpec | FileViolation:
    narrowing = model.record.tensors.get(name, TensorNarrowing())
    row, first = arrays[0]
    datatypes = {datatype_of(array) for _, array in arrays}
    shape = common_shape([array.shape for _, array in arrays])
    datatype = datatype_of(first)
    if datatypes != {datatype} or datatype is None:
        return model.violation(
            ModelInputError, row.path, f"{name} has several types", "use one type in all rows"
        )
    if shape is None:
        return model.violation(
            ModelInputError, row.path, f"{name} has different ranks", "use one rank in all rows"
        )
    if narrowing.shape is not None:
        for place, array in arrays:
            if not fits_shape(array.shape, narrowing.shape):
                return model.violation(
                    ModelMismatchError,
                    ("tensors", name, "shape"),
                    f"{list(narrowing.shape)} does not match {place.name}: {list(array.shape)}",
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
    if narrowing.labels is not None and not is_output:
        yield model.violation(
            ModelMismatchError, (*path, "labels"), f"{spec.name} is an input", "label outputs only"
        )
    sizes = (narrowing.shape or spec.shape)[-1:]
    if narrowing.labels is not None and is_output and sizes not in ((-1,), (len(narrowing.labels),)):
        yield model.violation(
            ModelMismatchError,
            (*path, "labels"),
            f"expected {sizes[0] if sizes else 0} labels for {spec.name}, got {len(narrowing.labels)}",
            "list one label per value, in order",
        )


def _is_narrower(narrow: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    """Return whether a shape only fixes sizes that are -1; -1 keeps a size."""
    return len(narrow) == len(declared) and all(
        a in (-1, b) or b == -1 for a, b in zip(narrow, declared, strict=True)
    )


def _narrowed(spec: TensorSpec, narrowing: TensorNarrowing | None) -> TensorSpec:
    if narrowing is None:
        return spec
    shape = spec.shape
    if narrowing.shape is not None:
        shape = tuple(b if a == -1 else a for a, b in zip(narrowing.shape, spec.shape, strict=True))
    return TensorSpec(
        name=spec.name, datatype=spec.datatype, shape=shape, labels=narrowing.labels or spec.labels
    )


def _unknown(
    model: Document[ModelSpec], path: FieldPath, names: Sequence[str], declared: Sequence[str]
) -> Iterator[FileViolation]:
    for name in names:
        if name not in declared:
            yield model.violation(
                ModelMismatchError,
                (*path, name),
                f"unknown tensor {name!r}; the model has {', '.join(declared)}",
                suggest(name, declared, "remove it or correct its name"),
            )
