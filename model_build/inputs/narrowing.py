"""What model.yaml says of tensors, laid over what the graph, or the test inputs, tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model_build.inputs.rows import Array, Row
from model_build.inputs.types import common_shape, datatype_of, fits_shape
from tritonstack.base.documents import Document, FieldPath, closest
from tritonstack.base.errors import FileProblem, InvalidFilesError
from tritonstack.records.manifests import TensorSpec
from tritonstack.spec.models.model import ModelSpec, TensorNarrowing

Tensors = tuple[TensorSpec, ...]


def narrow_tensors(
    model: Document[ModelSpec], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[Tensors, Tensors]:
    """A graph's tensors with the sizes and labels that model.yaml adds; it can contradict none of them.

    Names that match nothing, here or under `accept.outputs`, are faults too.
    """
    told = [*inputs, *outputs]
    problems = [
        *_unknown(model, ("tensors",), list(model.record.tensors), [spec.name for spec in told]),
        *_unknown(
            model, ("accept", "outputs"), list(model.record.accept.outputs), [spec.name for spec in outputs]
        ),
        *(fault for spec in told for fault in _contradictions(model, spec, is_output=spec in outputs)),
    ]
    if problems:
        raise InvalidFilesError(problems)
    said = model.record.tensors
    return (
        tuple(_narrowed(spec, said.get(spec.name)) for spec in inputs),
        tuple(_narrowed(spec, said.get(spec.name)) for spec in outputs),
    )


def tensors_of_rows(model: Document[ModelSpec], rows: Sequence[Row], *, of_outputs: bool = False) -> Tensors:
    """The tensors that all rows have: sizes that differ, or that model.yaml leaves open, are -1."""
    parts = [(row, row.outputs if of_outputs else row.inputs) for row in rows]
    problems: list[FileProblem] = []
    tensors = []
    for name in parts[0][1]:
        lacking = next((row for row, arrays in parts if name not in arrays), None)
        if lacking is not None:
            problems.append(model.problem(lacking.path, f"{name} is missing", remedy="write it everywhere"))
            continue
        found = _tensor(model, name, [(row, arrays[name]) for row, arrays in parts])
        if isinstance(found, FileProblem):
            problems.append(found)
        else:
            tensors.append(found)
    for row, arrays in parts:
        problems += [
            model.problem(row.path, f"{name} is missing in {parts[0][0].name}", remedy="write it everywhere")
            for name in arrays
            if name not in parts[0][1]
        ]
    if problems:
        raise InvalidFilesError(problems)
    return tuple(tensors)


def _tensor(
    model: Document[ModelSpec], name: str, arrays: Sequence[tuple[Row, Array]]
) -> TensorSpec | FileProblem:
    said = model.record.tensors.get(name, TensorNarrowing())
    row, first = arrays[0]
    datatypes = {datatype_of(array) for _, array in arrays}
    shape = common_shape([array.shape for _, array in arrays])
    datatype = datatype_of(first)
    if datatypes != {datatype} or datatype is None:
        return model.problem(row.path, f"{name} is of several types", remedy="write one type everywhere")
    if shape is None:
        return model.problem(
            row.path, f"{name} has not the same number of dimensions everywhere", remedy="correct one of them"
        )
    if said.shape is not None:
        for place, array in arrays:
            if not fits_shape(array.shape, said.shape):
                return model.problem(
                    ("tensors", name, "shape"),
                    f"{list(said.shape)} is not what {place.name} has: {list(array.shape)}",
                    remedy="correct one of the two; -1 stands for any size",
                )
        shape = said.shape
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def _contradictions(
    model: Document[ModelSpec], spec: TensorSpec, *, is_output: bool
) -> Iterator[FileProblem]:
    said = model.record.tensors.get(spec.name)
    if said is None:
        return
    path: FieldPath = ("tensors", spec.name)
    if said.datatype is not None and said.datatype != spec.datatype:
        yield model.problem(
            (*path, "datatype"),
            f"the model's {spec.name} is {spec.datatype}, not {said.datatype}",
            remedy="remove it, or correct it",
        )
    if said.shape is not None and not _is_narrower(said.shape, spec.shape):
        yield model.problem(
            (*path, "shape"),
            f"the model's {spec.name} is {list(spec.shape)}, which {list(said.shape)} contradicts",
            remedy="give sizes, without the batch dimension, where the model has -1",
        )
    if said.labels is not None and not is_output:
        yield model.problem((*path, "labels"), f"{spec.name} is an input", remedy="name an output's labels")
    sizes = (said.shape or spec.shape)[-1:]
    if said.labels is not None and is_output and sizes not in ((-1,), (len(said.labels),)):
        yield model.problem(
            (*path, "labels"),
            f"there are {len(said.labels)} labels, and {spec.name} has {sizes[0] if sizes else 'no'} places",
            remedy="name each place once, in their order",
        )


def _is_narrower(said: tuple[int, ...], told: tuple[int, ...]) -> bool:
    """Whether sizes say more than others, and nothing else; -1 leaves a size as it is."""
    return len(said) == len(told) and all(a in (-1, b) or b == -1 for a, b in zip(said, told, strict=True))


def _narrowed(spec: TensorSpec, said: TensorNarrowing | None) -> TensorSpec:
    if said is None:
        return spec
    shape = spec.shape
    if said.shape is not None:
        shape = tuple(b if a == -1 else a for a, b in zip(said.shape, spec.shape, strict=True))
    return TensorSpec(name=spec.name, datatype=spec.datatype, shape=shape, labels=said.labels or spec.labels)


def _unknown(
    model: Document[ModelSpec], path: FieldPath, names: Sequence[str], known: Sequence[str]
) -> Iterator[FileProblem]:
    for name in names:
        if name not in known:
            nearest = closest(name, known)
            yield model.problem(
                (*path, name),
                f"the model has no tensor {name!r}; it has {', '.join(known)}",
                remedy=f"did you mean {nearest!r}?" if nearest else "remove it, or correct its name",
            )
