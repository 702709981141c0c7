"""Read `test_inputs` of tensors: inline lists, .npz files, and random numbers; one request per row.

If the model declares its inputs, every row must match; otherwise the rows declare them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from model_build.data import Array, Case, fits_shape
from model_build.errors import ModelInputError
from model_build.inputs.inline import NUMPY_TYPES, UnfitValuesError, array_of, datatype_of, with_bytes
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.yaml import Document, FieldPath, suggest
from tritonstack.files.model.fields import TensorNarrowing
from tritonstack.files.model.inputs import RandomInputs, TestInput
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.examples import Origin
from tritonstack.files.records.manifests import TensorSpec

RANDOM_SEED = 20240917
OUTPUTS = "outputs/"
MAX_EXPANDED_BYTES = 2**30
"""Limit on the expanded size of an .npz file."""
MOST_ROWS = 1024
"""Each row is sent several times to a real server."""

_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    zipfile.BadZipFile,
    AttributeError,
    TypeError,
    MemoryError,
)
"""NumPy's exceptions for files that are not archives of arrays."""


@dataclass(frozen=True)
class Row:
    """One request of one row, without the batch dimension."""

    name: str
    path: FieldPath
    """Position in model.yaml."""
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array] = field(default_factory=dict)
    """Expected outputs, if given."""
    responses: Sequence[Mapping[str, Array]] = ()
    """Expected responses of a decoupled model, if given."""

    def case(self, expected: Mapping[str, Array], *, batches: bool, origin: Origin = "framework") -> Case:
        """Return the row as a request; `expected` already has any batch dimension.

        Expected outputs in the file take precedence over the framework. `origin` is the source of `expected`.
        """
        return Case(
            self.name,
            self.batch(self.inputs, batches=batches),
            {**expected, **self.right(batches)},
            origin="given" if self.outputs.keys() >= expected.keys() else origin,
        )

    def right(self, batches: bool) -> dict[str, Array]:
        """Return the expected outputs in reply form."""
        return self.batch(self.outputs, batches=batches)

    @staticmethod
    def batch(arrays: Mapping[str, Array], *, batches: bool) -> dict[str, Array]:
        """Return arrays as a request of one row."""
        return {name: array[np.newaxis] if batches else array for name, array in arrays.items()}


def read_rows(
    model: Document[ModelSpec],
    inputs: Sequence[TensorSpec] | None = None,
    outputs: Sequence[TensorSpec] | None = None,
) -> list[Row]:
    """Read all rows of a model; raise InvalidFilesError with every violation and its line."""
    reader = _Reader(model, inputs, outputs)
    rows = [row for index, item in enumerate(model.record.test_inputs) for row in reader.read(index, item)]
    reject(reader.violations)
    return rows


def read_outputs(
    model: Document[ModelSpec], index: int, outputs: Sequence[TensorSpec] | None = None
) -> dict[str, Array]:
    """Read the expected outputs of a test input that sends a text or an image."""
    reader = _Reader(model, None, outputs)
    arrays = reader.right(index, model.record.test_inputs[index])
    reject(reader.violations)
    return arrays


class _Reader:
    """Reads test inputs in order and collects violations."""

    def __init__(
        self,
        model: Document[ModelSpec],
        inputs: Sequence[TensorSpec] | None,
        outputs: Sequence[TensorSpec] | None,
    ) -> None:
        self._model = model
        self._inputs, self._outputs = inputs, outputs
        self.violations: list[FileViolation] = []

    def read(self, index: int, item: TestInput) -> Iterator[Row]:
        """Read the rows of one test input."""
        path: FieldPath = ("test_inputs", index)
        name = f"test input {index + 1}"
        if item.inputs is not None:
            inputs = self._inline((*path, "inputs"), item.inputs, self._inputs)
            yield Row(name, path, inputs, self.right(index, item), self._responses(index, item))
        elif item.file is not None:
            yield from self._file((*path, "file"), name, self._model.file.parent / item.file)
        elif item.random is not None:
            yield from self._random((*path, "random"), name, index, item.random)

    def _responses(self, index: int, item: TestInput) -> list[dict[str, Array]]:
        """Read the expected responses beside a test input."""
        path: FieldPath = ("test_inputs", index, "responses")
        return [
            self._inline((*path, place), values, self._outputs)
            for place, values in enumerate(item.responses or ())
        ]

    def right(self, index: int, item: TestInput) -> dict[str, Array]:
        """Read the expected outputs beside a test input."""
        path: FieldPath = ("test_inputs", index, "outputs")
        return self._inline(path, item.outputs or {}, self._outputs, all_of_them=False)

    def _inline(
        self,
        path: FieldPath,
        values: Mapping[str, Any],
        specs: Sequence[TensorSpec] | None,
        *,
        all_of_them: bool = True,
    ) -> dict[str, Array]:
        self._check_names(path, list(values), specs, all_of_them=all_of_them)
        arrays = {}
        for name, value in values.items():
            spec = _find(specs, name)
            if specs is not None and spec is None:
                continue
            declared = self._model.record.tensors.get(name, TensorNarrowing()).datatype
            try:
                datatype = spec.datatype if spec else declared
                value_of_bytes = with_bytes(value, self._model.file.parent)
                array = array_of(value_of_bytes, datatype, allow_nan=path[-1] == "inputs")
            except UnfitValuesError as error:
                self._violation((*path, name), error.message, error.remedy)
                continue
            if self._has_shape((*path, name), name, array.shape, spec):
                arrays[name] = array
        return arrays

    def _file(self, path: FieldPath, name: str, file: Path) -> Iterator[Row]:
        arrays = self._load(path, file)
        rows = {len(array) if array.ndim else 0 for array in arrays.values()}
        inputs = {key: array for key, array in arrays.items() if not key.startswith(OUTPUTS)}
        right = {key.removeprefix(OUTPUTS): array for key, array in arrays.items() if key not in inputs}
        if not arrays:
            return
        if len(rows) > 1 or not 0 < min(rows) <= MOST_ROWS:
            counts = ", ".join(f"{key}: {list(array.shape)}" for key, array in arrays.items())
            self._violation(
                path,
                f"the arrays have different row counts: {counts}",
                f"save arrays with equal first dimensions, at most {MOST_ROWS}",
            )
            return
        self._check_names(path, list(inputs), self._inputs)
        self._check_names(path, list(right), self._outputs, all_of_them=False)
        fine = [
            self._fits(path, key, array, _find(specs, key))
            for specs, part in ((self._inputs, inputs), (self._outputs, right))
            for key, array in part.items()
            if specs is None or _find(specs, key)
        ]
        if all(fine):
            for number in range(min(rows)):
                yield Row(
                    f"{name}, row {number + 1}",
                    path,
                    {key: array[number] for key, array in inputs.items()},
                    {key: array[number] for key, array in right.items()},
                )

    def _load(self, path: FieldPath, file: Path) -> dict[str, Array]:
        try:
            with np.load(file, allow_pickle=False) as archive:
                _check_expanded_size(archive)
                arrays = {key: _as_object(archive[key]) for key in archive.files}
                if not arrays:
                    raise ValueError("no arrays")
                return arrays
        except _UNREADABLE as error:
            self._violation(
                path,
                f"{file.name} is not an .npz archive: {error}",
                "write it with numpy.savez(file, name=array), without Python objects: texts as "
                "array.astype('U'), and bytes in model.yaml as `inputs: {<name>: [{file: <file>}]}`",
            )
            return {}

    def _fits(self, path: FieldPath, name: str, array: Array, spec: TensorSpec | None) -> bool:
        datatype = datatype_of(array)
        declared = self._model.record.tensors.get(name, TensorNarrowing()).datatype
        expected = spec.datatype if spec else declared or datatype
        if datatype is None or datatype != expected:
            expected_type = NUMPY_TYPES.get(expected or "")
            self._violation(
                path,
                f"{name} is {array.dtype}; the model takes {expected or 'another type'}",
                f"save it as {expected_type}" if expected_type else None,
            )
            return False
        return self._has_shape(path, name, array.shape[1:], spec)

    def _random(self, path: FieldPath, name: str, index: int, options: RandomInputs) -> Iterator[Row]:
        if self._inputs is None:
            self._violation(
                path,
                "this model does not declare its inputs, so random ones cannot be generated",
                "set `inputs: {...}` or `file: <file>.npz`",
            )
            return
        self._check_names((*path, "sizes"), list(options.sizes), self._inputs, all_of_them=False)
        shapes = {spec.name: options.sizes.get(spec.name, spec.shape) for spec in self._inputs}
        before = len(self.violations)
        for spec in self._inputs:
            self._check_random(path, spec, shapes[spec.name])
        if len(self.violations) > before:
            return
        random = np.random.default_rng((RANDOM_SEED, index))
        for number in range(options.rows):
            arrays = {
                spec.name: _random_array(random, spec.datatype, shapes[spec.name], options.below)
                for spec in self._inputs
            }
            yield Row(f"{name}, row {number + 1}", path, arrays)

    def _check_random(self, path: FieldPath, spec: TensorSpec, shape: tuple[int, ...]) -> None:
        if spec.datatype not in NUMPY_TYPES or spec.datatype == "BYTES":
            self._violation(
                path, f"{spec.name} takes {spec.datatype}, which cannot be random", "set `inputs: {...}`"
            )
        elif -1 in shape:
            self._violation(
                path,
                f"{spec.name} has variable sizes: {list(spec.shape)}",
                f"set `sizes: {{{spec.name}: [...]}}`",
            )
        else:
            self._has_shape((*path, "sizes", spec.name), spec.name, shape, spec)

    def _check_names(
        self,
        path: FieldPath,
        names: Sequence[str],
        specs: Sequence[TensorSpec] | None,
        *,
        all_of_them: bool = True,
    ) -> None:
        if specs is None:
            return
        expected = [spec.name for spec in specs]
        for name in names:
            if name not in expected:
                self._violation(
                    (*path, name),
                    f"unknown tensor; the model has {', '.join(expected)}",
                    suggest(name, expected, "remove it or correct its name"),
                )
        missing = [name for name in expected if name not in names] if all_of_them else []
        if missing:
            self._violation(
                path, f"the model also takes {', '.join(missing)}", "add every input of the model"
            )

    def _has_shape(self, path: FieldPath, name: str, shape: tuple[int, ...], spec: TensorSpec | None) -> bool:
        if spec is None or fits_shape(shape, spec.shape):
            return True
        self._violation(
            path,
            f"{name} has shape {list(shape)}; the model takes {list(spec.shape)}",
            "write it without the batch dimension"
            if fits_shape(shape[1:], spec.shape)
            else "correct the shape",
        )
        return False

    def _violation(self, path: FieldPath, message: str, remedy: str | None) -> None:
        self.violations.append(self._model.violation(ModelInputError, path, message, remedy))


def _find(specs: Sequence[TensorSpec] | None, name: str) -> TensorSpec | None:
    return next((spec for spec in specs or () if spec.name == name), None)


def _as_object(array: Array) -> Array:
    """Convert strings to object arrays, as requests hold them: ASCII as texts, other bytes unchanged."""
    if array.dtype.kind == "S":
        with suppress(UnicodeDecodeError):
            return array.astype(np.str_).astype(np.object_)
    return array.astype(np.object_) if array.dtype.kind in "US" else array


def _random_array(random: np.random.Generator, datatype: str, shape: tuple[int, ...], below: int) -> Array:
    dtype = NUMPY_TYPES[datatype]
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if datatype == "BOOL":
        return random.integers(0, 2, shape).astype(dtype)
    return random.integers(0, min(below, int(np.iinfo(dtype).max) + 1), shape).astype(dtype)


def _check_expanded_size(archive: Any) -> None:
    """Check an archive's expanded size before reading it: small files can expand to any size."""
    # np.load returns a bare array for an .npy file under another name.
    parts = getattr(archive, "zip", None)
    size = sum(part.file_size for part in parts.infolist()) if parts else 0
    if size > MAX_EXPANDED_BYTES:
        raise ValueError(f"it expands to {size:,} bytes; the limit is {MAX_EXPANDED_BYTES:,}")
