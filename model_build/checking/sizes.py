"""Check a model at sizes other than those of its test inputs, for every variable dimension.

Tracing and exporting may turn a size into a constant. Such a model is right only at the sizes of its test
inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from model_build.checking.parity import Answer, compare
from model_build.data import Array, Case, fits_shape, join_cases
from model_build.errors import ModelBuildError, ParityError
from model_build.inputs.rows import Row
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.yaml import Document, FieldPath
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tolerance import Precision
from tritonstack.files.records.comparing import first_difference
from tritonstack.files.records.manifests import TensorSpec

WANTED, ENOUGH = 3, 2
"""Number of other sizes to try per dimension, and the number that must work."""
NOISE = 1e-4
"""Relative difference that summation order explains; a wrong size shows far more."""
LARGEST_BATCH_BYTES = 64 << 20
LONGEST_ERROR = 200


@dataclass(frozen=True)
class Axis:
    """Dimensions that have equal sizes in every test input and are resized together."""

    places: tuple[tuple[str, int], ...]
    """Input names with dimensions, not counting the batch dimension."""
    sizes: tuple[int, ...]
    """The distinct sizes in the test inputs."""
    required: bool = True

    @property
    def title(self) -> str:
        """The dimensions, for messages."""
        return " and ".join(f"dimension {dimension} of {name}" for name, dimension in self.places)

    def violation_path(self, spec: ModelSpec) -> FieldPath:
        """Return the field that declares the size variable, or `test_inputs` if they show one size only."""
        name = self.places[0][0]
        return ("tensors", name, "shape") if name in spec.tensors else ("test_inputs",)


@dataclass(frozen=True)
class SizedCase:
    """A request of another size, with the expected answers."""

    axis: Axis
    size: int
    case: Case


def variable_axes(inputs: Sequence[TensorSpec], rows: Sequence[Row]) -> list[Axis]:
    """Return the variable dimensions; those that always have equal sizes form one axis."""
    groups: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    for spec in inputs:
        for dimension, size in enumerate(spec.shape):
            if size == -1:
                sizes = tuple(row.inputs[spec.name].shape[dimension] for row in rows)
                groups.setdefault(sizes, []).append((spec.name, dimension))
    return [Axis(tuple(places), tuple(sorted(set(sizes)))) for sizes, places in groups.items()]


def sized_cases(
    model: Document[ModelSpec],
    inputs: Sequence[TensorSpec],
    rows: Sequence[Row],
    original: Answer,
    *,
    batches: bool,
) -> list[SizedCase]:
    """Return requests of at least two other sizes per variable axis, answered by `original`.

    Raises InvalidFilesError for an axis with a single size that cannot be resized.
    """
    resized: list[SizedCase] = []
    violations: list[FileViolation] = []
    for axis in _with_single_dimensions(variable_axes(inputs, rows)):
        cases, failures = _resized_cases(axis, rows, original, batches=batches)
        resized += cases
        if axis.required and len(cases) < ENOUGH and len(axis.sizes) < ENOUGH:
            violations.append(_not_resizable(model, axis, failures))
    reject(violations)
    return resized


def batch_cases(rows: Sequence[Row], original: Answer, *, max_batch: int) -> list[Case]:
    """Return batches of several sizes; the expected answers are those of each row alone."""
    if max_batch < 2:
        return []
    alone = []
    for inputs in _different_rows(rows):
        request = Row.batch(inputs, batches=True)
        answers = _answers(original, request)
        if not isinstance(answers, str):
            alone.append(Case("", request, answers))
    if not alone:
        return []
    row_bytes = max(1, sum(array.nbytes for array in alone[0].inputs.values()))
    largest = min(max_batch, max(3, LARGEST_BATCH_BYTES // row_bytes))
    return [
        replace(join_cases([alone[number % len(alone)] for number in range(size)]), name=f"a batch of {size}")
        for size in sorted({2, min(3, max_batch), largest})
    ]


def check_sizes(
    model: Document[ModelSpec],
    answer: Answer,
    cases: Iterable[SizedCase],
    *,
    subject: str,
    precision: Precision = "fp32",
) -> None:
    """Raise InvalidFilesError if `answer` is wrong at another size."""
    wrong: dict[Axis, FileViolation] = {}
    for sized in cases:
        difference = difference_of(model, answer, sized.case, precision)
        if difference and sized.axis not in wrong:
            axis = sized.axis
            built_in = " or ".join(map(str, axis.sizes))
            wrong[axis] = model.violation(
                ParityError,
                axis.violation_path(model.record),
                f"{subject} is wrong at sizes not in the test inputs: at size {sized.size} of "
                f"{axis.title}, {difference}; size {built_in} is a constant in the graph",
                "compute sizes with tensor operations, or script the module (torch.jit.script) "
                f"instead of tracing it; or declare the size fixed: {_fixed(axis)}",
            )
    reject(wrong.values())


def check_batches(
    model: Document[ModelSpec],
    answer: Answer,
    cases: Iterable[Case],
    *,
    subject: str,
) -> None:
    """Raise InvalidFilesError if a batched row gets a different answer than the row alone."""
    for case in cases:
        difference = difference_of(model, answer, case)
        if difference:
            raise model.invalid(
                ParityError,
                ("batching", "max_batch"),
                f"{subject}: {case.name} and its rows alone get different answers: {difference}",
                "set `batching: {max_batch: 0}`, or export the model with a variable batch "
                "and independent rows",
            )


def check_outputs(
    model: Document[ModelSpec], outputs: Sequence[TensorSpec], cases: Sequence[SizedCase]
) -> None:
    """Raise InvalidFilesError if an answer of another size does not match the declared shape."""
    rows = (1,) if model.record.batching.max_batch else ()
    for sized in cases:
        for spec in outputs:
            shape = sized.case.expected[spec.name].shape
            if not fits_shape(shape, (*rows, *spec.shape)):
                raise model.invalid(
                    ParityError,
                    sized.axis.violation_path(model.record),
                    f"at size {sized.size} of {sized.axis.title}, {spec.name} has shape "
                    f"{list(shape)}; the graph declares {[*rows, *spec.shape]}",
                    f"export the graph with a variable size, or declare the size fixed: {_fixed(sized.axis)}",
                )


def unverified_reasons(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], rows: Sequence[Row]
) -> tuple[str, ...]:
    """Return why answers without a framework are unverified; empty if expected outputs cover them."""
    missing = [spec.name for spec in outputs if not any(spec.name in row.outputs for row in rows)]
    if missing:
        return (f"compared with itself only: no test input has expected outputs for {', '.join(missing)}",)
    answered = [row for row in rows if row.outputs]
    return tuple(
        f"expected outputs cover only size {axis.sizes[0]} of {axis.title}"
        for axis in variable_axes(inputs, answered)
        if len(axis.sizes) < ENOUGH
    )


def _with_single_dimensions(axes: Iterable[Axis]) -> Iterator[Axis]:
    """Yield each axis, then its dimensions one by one, which some models reject."""
    for axis in axes:
        yield axis
        if len(axis.places) > 1:
            yield from (Axis((place,), axis.sizes, required=False) for place in axis.places)


def _resized_cases(
    axis: Axis, rows: Sequence[Row], original: Answer, *, batches: bool
) -> tuple[list[SizedCase], dict[int, str]]:
    name, dimension = axis.places[0]
    row = next((row for row in rows if row.inputs[name].shape[dimension] > 1), None)
    if row is None:  # repeated copies of one value do not show which copy the model reads
        return [], {}
    cases: list[SizedCase] = []
    failures: dict[int, str] = {}
    for size in _other_sizes(row.inputs[name].shape[dimension]):
        request = Row.batch(_resized(row.inputs, axis, size), batches=batches)
        answers = _answers(original, request)
        if isinstance(answers, str):
            failures[size] = answers
            continue
        title = f"{row.name} with size {size} of {axis.title}"
        cases.append(SizedCase(axis, size, Case(title, request, answers, typical=False)))
        if len(cases) == WANTED:
            break
    return cases, failures


def _other_sizes(size: int) -> Iterator[int]:
    """Return nearby sizes, multiples, and fractions: some models accept only some of them."""
    sizes = (size + 1, 2 * size, size - 1, size // 2, size + 2, 3 * size, 4 * size, 1)
    yield from (other for other in dict.fromkeys(sizes) if other > 0 and other != size)


def _resized(arrays: Mapping[str, Array], axis: Axis, size: int) -> dict[str, Array]:
    """Repeat or cut the values, so that they stay in the model's range."""
    resized = dict(arrays)
    for name, dimension in axis.places:
        array = resized[name]
        resized[name] = np.take(array, _places(size, array.shape[dimension]), axis=dimension)
    return resized


def _places(size: int, old_size: int) -> Array:
    """Return the index of the old value to use at each position of the new dimension.

    If it is larger, the first `old_size` positions repeat one value, so a model that reads only those (such
    as a maximum over a constant size) answers differently.
    """
    places = np.arange(size)
    if size <= old_size:
        return places
    if size < 2 * old_size:
        return np.where(places < old_size, old_size - 1, places - old_size)
    return (places - (size - old_size)).clip(0)


def _different_rows(rows: Sequence[Row]) -> Iterator[Mapping[str, Array]]:
    """Yield test inputs of equal sizes, and the first one with its values rotated."""
    first = {name: array.shape for name, array in rows[0].inputs.items()}
    for row in rows:
        if {name: array.shape for name, array in row.inputs.items()} == first:
            yield row.inputs
    for places in (1, 2):
        yield {
            name: np.roll(array, places, axis=-1) if array.ndim else array
            for name, array in rows[0].inputs.items()
        }


def _answers(original: Answer, request: Mapping[str, Array]) -> Mapping[str, Array] | str:
    """Return the answers to a resized request, or the reason why the model rejects it."""
    try:
        answers = original(request)
    except Exception as error:  # user code may raise anything
        return " ".join(str(error).split())[:LONGEST_ERROR] or type(error).__name__
    if any(array.dtype.kind == "f" and np.isnan(array).any() for array in answers.values()):
        return "its answers are NaN"
    return answers


def difference_of(
    model: Document[ModelSpec], answer: Answer, case: Case, precision: Precision = "fp32"
) -> str | None:
    """Describe how the answers to a case differ from the expected ones; None if they match."""
    try:
        answers = answer(case.inputs)
    except ModelBuildError as error:
        return f"it fails ({error.message})"
    for name, expected in case.expected.items():
        actual = answers[name]
        try:
            compared = compare(case.name, name, actual=actual, expected=expected)
        except ParityError:
            return f"{name} has shape {list(actual.shape)}, expected {list(expected.shape)}"
        tolerance = model.record.accept.tolerance(name, precision, compared.answers)
        if not compared.is_within(tolerance) and not compared.relative <= NOISE:
            return f"{name} is {first_difference(actual, expected, tolerance)}"
    return None


def _not_resizable(model: Document[ModelSpec], axis: Axis, failures: Mapping[int, str]) -> FileViolation:
    (size,) = axis.sizes
    tried = (
        f"; the model fails at sizes {', '.join(map(str, failures))}: {next(iter(failures.values()))}"
        if failures
        else ""
    )
    return model.violation(
        ParityError,
        axis.violation_path(model.record),
        f"{axis.title} varies, but every test input has size {size}{tried}; the graph may fix this size",
        f"add a test input with a second size, or declare the size fixed: {_fixed(axis)}",
    )


def _fixed(axis: Axis) -> str:
    name, dimension = axis.places[0]
    return f"`tensors: {{{name}: {{shape: [...]}}}}` with size {axis.sizes[0]} at dimension {dimension}"
