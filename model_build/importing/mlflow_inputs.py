"""Read the input example that MLflow saved with a model, for the test inputs of its recipe.

MLflow writes input_example.json (`log_model(input_example=...)`), and later versions also the request that
its server takes, serving_input_example.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from model_build.data import Array, fits_shape
from model_build.importing.records import INPUTS_FILE
from model_build.inputs.inline import NUMPY_TYPES
from model_build.linting.findings import is_small
from tritonstack.base.files import parse_json
from tritonstack.base.source_files import find_file, open_file
from tritonstack.files.records.manifests import TensorSpec

FILES = ("serving_input_example.json", "input_example.json")
TABLES = ("dataframe_split", "dataframe_records")
ARRAYS = ("inputs", "instances")
MOST_ROWS = 64
"""Most rows that are used: an example needs few."""
MOST_TEXTS = 16
"""Most rows with texts, which are written into model.yaml."""


class UnusableExampleError(Exception):
    """The example does not fit the model, or is in a format that is not read."""


@dataclass(frozen=True)
class InputExample:
    """A saved example: a table, or arrays."""

    file: str
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values by column of a data frame."""
    values: Any = None
    """Nested lists, or lists by the name of a tensor."""

    def rows(self) -> Array:
        """Return rows of numbers; raise UnusableExampleError if some are no numbers."""
        if isinstance(self.values, dict):
            raise UnusableExampleError(f"it names the tensors {', '.join(self.values)}; expected rows")
        numbers = _numbers(list(map(list, zip(*self.columns.values(), strict=True))) or self.values)
        if numbers.ndim != 2:
            raise UnusableExampleError(f"its shape is {list(numbers.shape)}; expected rows of numbers")
        return numbers[:MOST_ROWS]

    def texts(self) -> list[str]:
        """Return a list of texts."""
        lists: list[Any] = [list(column) for column in self.columns.values()] or [self.values]
        if isinstance(self.values, dict):
            lists = list(self.values.values())
        # one text, or a list of texts
        texts = [lists[0]] if lists and isinstance(lists[0], str) else next(iter(lists), None)
        if len(lists) != 1 or not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise UnusableExampleError("expected one column of texts")
        return texts[:MOST_TEXTS]

    def questions(self) -> list[Mapping[str, str]]:
        """Return pairs of a question and a context."""
        if self.columns:
            rows: Any = [
                dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)
            ]
        else:
            rows = self.values if isinstance(self.values, list) else [self.values]
        for row in rows:
            if not isinstance(row, dict) or row.keys() != {"question", "context"}:
                raise UnusableExampleError("expected `question` and `context` per row")
            if not all(isinstance(text, str) for text in row.values()):
                raise UnusableExampleError("expected texts")
        return list(rows[:MOST_TEXTS])


def read_example(root: Path, info: Mapping[str, Any]) -> InputExample | None:
    """Return the example that MLmodel's `saved_input_example_info` names; None without one."""
    names = [info.get("serving_input_path"), info.get("artifact_path"), *FILES]
    for name in dict.fromkeys(path for path in names if isinstance(path, str) and path):
        file = find_file(root, name)
        if file is not None:
            if not is_small(file.path):
                raise UnusableExampleError(f"{name} is larger than 1 MiB")
            with open_file(file) as stream:
                return _read(name, stream.read(), info)
    if info:
        raise UnusableExampleError("the file is missing")
    return None


def _read(name: str, content: bytes, info: Mapping[str, Any]) -> InputExample:
    try:
        document = parse_json(content)
    except ValueError as error:
        raise UnusableExampleError(f"{name} is not JSON") from error
    if isinstance(document, dict):
        for key in TABLES:
            if key in document:
                return _table(name, document[key])
        for key in ARRAYS:
            if key in document:
                return InputExample(name, values=document[key])
        if info.get("type") == "dataframe" or document.keys() >= {"columns", "data"}:
            return _table(name, document)
    if info.get("type") == "dataframe":
        return _table(name, document)
    return InputExample(name, values=document)


def _table(name: str, document: Any) -> InputExample:
    try:
        if isinstance(document, dict):
            columns = [str(column) for column in document["columns"]]
            rows = [dict(zip(columns, row, strict=True)) for row in document["data"]]
        else:
            rows = [{str(key): value for key, value in row.items()} for row in document]
            columns = list(rows[0])
        table = {column: [row[column] for row in rows] for column in columns}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UnusableExampleError(f"{name} is not a data frame of pandas in JSON") from error
    if not rows or not columns or len(set(columns)) != len(columns):
        raise UnusableExampleError(f"{name} has no rows, or two columns of one name")
    return InputExample(name, columns=table)


def row_inputs(example: InputExample, tensor: str, folder: Path) -> list[Mapping[str, Any]]:
    """Write rows of numbers as test inputs of a model with one tensor."""
    return _write_arrays(folder, {tensor: example.rows().astype(np.float32)})


def column_inputs(example: InputExample, tensor: str, folder: Path) -> list[Mapping[str, Any]]:
    """Write rows of a table: as one tensor if all are numbers, else as one tensor per column."""
    try:
        return row_inputs(example, tensor, folder)
    except UnusableExampleError:
        if not example.columns:
            raise
    columns = {name: _column(name, values[:MOST_TEXTS]) for name, values in example.columns.items()}
    count = len(next(iter(columns.values())))
    return [{"inputs": {name: [values[row]] for name, values in columns.items()}} for row in range(count)]


def _column(name: str, values: Sequence[Any]) -> list[Any]:
    if all(isinstance(value, str) for value in values):
        return list(values)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return list(values)
    if any(not isinstance(value, int | float | None) for value in values):
        raise UnusableExampleError(f"the column {name} has texts and other values")
    return [float("nan") if value is None else float(value) for value in values]


def tensor_inputs(
    example: InputExample, tensors: Sequence[TensorSpec], folder: Path, *, batches: bool
) -> list[Mapping[str, Any]]:
    """Write arrays as test inputs of a graph's tensors, which have no batch dimension here."""
    if isinstance(example.values, dict):
        values = example.values
    elif len(tensors) == 1:
        name = tensors[0].name
        # A table gives the column with the tensor's name, or all columns as rows.
        table = list(map(list, zip(*example.columns.values(), strict=True)))
        values = {name: example.columns.get(name, table) if example.columns else example.values}
    else:
        values = dict(example.columns)
    if values.keys() != {tensor.name for tensor in tensors}:
        expected = ", ".join(tensor.name for tensor in tensors)
        raise UnusableExampleError(f"it has {', '.join(values) or 'one array'}; the graph takes {expected}")
    arrays = {tensor.name: _array(values[tensor.name], tensor, batches=batches) for tensor in tensors}
    if len({len(array) for array in arrays.values()}) > 1:
        raise UnusableExampleError("its arrays have different numbers of rows")
    return _write_arrays(folder, arrays)


def _array(values: Any, tensor: TensorSpec, *, batches: bool) -> Array:
    dtype = NUMPY_TYPES.get(tensor.datatype)
    if dtype is None:
        raise UnusableExampleError(f"{tensor.name} takes {tensor.datatype}")
    if tensor.datatype == "BYTES":
        try:
            array = np.array(values)
        except ValueError as error:
            raise UnusableExampleError(f"{tensor.name} has rows of different sizes") from error
        if array.dtype.kind != "U":
            raise UnusableExampleError(f"{tensor.name} takes texts")
    else:
        numbers = _numbers(values)
        with np.errstate(invalid="ignore"):
            array = numbers.astype(dtype)
        if dtype.kind in "iub" and not np.array_equal(array, numbers):
            raise UnusableExampleError(f"{tensor.name} takes {tensor.datatype}; some values do not fit")
    if not batches:
        array = array[np.newaxis]
    if array.ndim == 0 or not fits_shape(array.shape[1:], tensor.shape):
        raise UnusableExampleError(
            f"{tensor.name} has shape {list(array.shape[1:])}; the graph takes {list(tensor.shape)}"
        )
    return array[:MOST_ROWS]


def _numbers(values: Any) -> Array:
    """Return numbers; JSON's null is NaN."""
    try:
        array = np.array(values, dtype=object)
        if any(not isinstance(value, int | float | None) for value in array.flat):
            raise UnusableExampleError("some of its values are no numbers")
        return array.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise UnusableExampleError("its rows have different sizes") from error


def _write_arrays(folder: Path, arrays: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not all(array.size for array in arrays.values()):
        raise UnusableExampleError("it has no rows")
    np.savez(folder / INPUTS_FILE, **arrays)
    return [{"file": INPUTS_FILE}]
