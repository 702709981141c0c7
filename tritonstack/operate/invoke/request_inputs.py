"""Turn `NAME=VALUE`, `NAME=@FILE`, and data files into the tensors of a request, and check them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.byte_tensors import BYTES, numpy_type
from tritonstack.base.yaml import closest
from tritonstack.files.records.manifests import Manifest, TensorSpec
from tritonstack.operate.invoke.input_files import (
    RequestInputError,
    parse_json,
    read_data_file,
    read_input_file,
)

Array = NDArray[Any]
_LISTED = 10
_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "booleans",
    int: "integers",
    float: "decimal numbers",
    str: "texts",
    bytes: "texts",
    dict: "JSON objects",
    list: "lists of different length",
}


@dataclass(frozen=True)
class GivenInputs:
    """The inputs of one request as a person wrote them."""

    values: Sequence[str] = ()
    """NAME=VALUE or NAME=@FILE."""
    data: Path | None = None
    """An .npz file, or a .json file."""

    def __bool__(self) -> bool:
        return bool(self.values) or self.data is not None

    @property
    def files(self) -> list[Path]:
        """The files that they name."""
        named = [
            text[1:] for _, _, text in (value.partition("=") for value in self.values) if text[:1] == "@"
        ]
        return [*map(Path, named), *filter(None, [self.data])]


@dataclass(frozen=True)
class _Given:
    """One input: its name, where it comes from (for errors), and what reads its value for a tensor."""

    name: str
    origin: str
    content: Callable[[TensorSpec], Any]


def read_inputs(given: GivenInputs, manifest: Manifest) -> dict[str, Array]:
    """Return the tensors of a request, with the model's types and its batch dimension."""
    specs = {spec.name: spec for spec in manifest.inputs}
    arrays: dict[str, Array] = {}
    for item in [*_from_data(given.data), *map(_from_option, given.values)]:
        if item.name not in specs:
            raise RequestInputError(
                f"{item.origin}: the model {manifest.model!r} has no input {item.name!r}",
                remedy=_suggestion(item.name, specs.values()),
            )
        if item.name in arrays:
            raise RequestInputError(
                f"{item.origin}: duplicate input {item.name!r}", remedy="give each input once"
            )
        spec = specs[item.name]
        arrays[item.name] = tensor_of(
            item.content(spec), spec, batched=manifest.max_batch > 0, origin=item.origin
        )
    missing = [spec for spec in specs.values() if spec.name not in arrays]
    if missing:
        raise RequestInputError(
            f"missing input {described(missing[0])}",
            remedy=f"add it, for example --input {missing[0].name}=@FILE",
        )
    _check_rows(arrays, manifest)
    return arrays


def _from_data(file: Path | None) -> Iterator[_Given]:
    for name, value in read_data_file(file).items() if file else ():
        yield _Given(name, str(file), partial(_same, value))


def _same(value: Any, _: TensorSpec) -> Any:
    return value


def _from_option(option: str) -> _Given:
    name, separator, text = option.partition("=")
    if not separator or not name:
        raise RequestInputError(
            f"--input {option}: expected NAME=VALUE", remedy="write --input NAME=VALUE or --input NAME=@FILE"
        )
    origin = f"--input {name}"
    if text.startswith("@"):
        return _Given(name, origin, partial(read_input_file, Path(text[1:])))
    return _Given(name, origin, partial(_parsed, text, origin))


def _parsed(text: str, origin: str, spec: TensorSpec) -> Any:
    """Return JSON data; for texts, also the text itself."""
    is_text = spec.datatype == BYTES and not text.startswith("[")
    return text if is_text else parse_json(text, origin=origin)


def described(spec: TensorSpec) -> str:
    """Return a tensor's name, type, and shape."""
    return f"{spec.name} ({spec.datatype}, shape {list(spec.shape)})"


def tensor_of(content: Any, spec: TensorSpec, *, batched: bool, origin: str) -> Array:
    """Return content as the tensor that a model expects; raise RequestInputError if it is none."""
    array = _as_type(content, spec, origin)
    for candidate in _shapes(array, spec, batched):
        if _fits(candidate.shape[1:] if batched else candidate.shape, spec.shape):
            return candidate
    expected = f"{list(spec.shape)}, or rows of that shape" if batched else list(spec.shape)
    raise RequestInputError(
        f"{origin}: expected shape {expected} for input {spec.name!r}, got {list(array.shape)}",
        remedy="change the values; -1 stands for any size",
    )


def _shapes(array: Array, spec: TensorSpec, batched: bool) -> Iterator[Array]:
    """Yield the array as a batch, as one row, as rows of single values, and as a single value."""
    rank = len(spec.shape) + batched
    if array.ndim == rank:
        yield array
    if batched and array.ndim == rank - 1:
        yield array[np.newaxis]
    if batched and array.ndim == 1 and spec.shape == (1,):
        yield array[:, np.newaxis]
    if array.ndim == 0:
        yield array.reshape((1,) * rank)


def _fits(shape: Sequence[int], expected: Sequence[int]) -> bool:
    return len(shape) == len(expected) and all(
        dimension in (-1, size) for size, dimension in zip(shape, expected, strict=True)
    )


def _as_type(content: Any, spec: TensorSpec, origin: str) -> Array:
    if spec.datatype == BYTES:
        return _as_strings(content, spec, origin)
    try:
        array = content if isinstance(content, np.ndarray) else np.array(content)
    except ValueError as error:
        raise RequestInputError(
            f"{origin}: the lists for input {spec.name!r} differ in length",
            remedy="give all rows the same length",
        ) from error
    dtype = numpy_type(spec.datatype)
    if array.size == 0:
        return array.astype(dtype)
    kinds = {"b": "b", "i": "biu", "u": "biu"}.get(dtype.kind, "biuf")
    if array.dtype.kind not in kinds and not (dtype.kind in "iu" and _is_whole(array)):
        raise RequestInputError(
            f"{origin}: expected {spec.datatype} for input {spec.name!r}, got {_kind(array)}",
            remedy="write true and false"
            if dtype.kind == "b"
            else "write numbers and lists as JSON, such as 0.5 or [[1, 2], [3, 4]]",
        )
    if dtype.kind in "iu" and not _in_range(array, dtype):
        raise RequestInputError(
            f"{origin}: input {spec.name!r} has values outside the range of {spec.datatype}",
            remedy=f"use values from {np.iinfo(dtype).min} to {np.iinfo(dtype).max}",
        )
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    if dtype.kind == "f" and not np.array_equal(np.isinf(converted), np.isinf(array)):
        raise RequestInputError(
            f"{origin}: input {spec.name!r} has values outside the range of {spec.datatype}",
            remedy=f"use values from {np.finfo(dtype).min} to {np.finfo(dtype).max}, or Infinity",
        )
    return converted


def _is_whole(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(np.all(np.isfinite(array)) and np.all(array == np.floor(array)))


def _in_range(array: Array, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return int(array.min()) >= limits.min and int(array.max()) <= limits.max


def _as_strings(content: Any, spec: TensorSpec, origin: str) -> Array:
    if isinstance(content, bytes):
        content = np.array(content, dtype=np.object_)
    array = content if isinstance(content, np.ndarray) else np.array(content, dtype=np.object_)
    if array.dtype.kind in "US":
        array = array.astype(np.object_)
    if array.dtype.kind != "O" or not all(isinstance(item, str | bytes) for item in array.flat):
        raise RequestInputError(
            f"{origin}: expected texts for input {spec.name!r} (BYTES), got {_kind(array, (str, bytes))}",
            remedy='write texts as they are, or as a JSON list such as ["one", "two"]',
        )
    require_text([item for item in array.flat if isinstance(item, str)], origin)
    return array


def require_text(texts: Iterable[str], origin: str) -> None:
    """Raise RequestInputError for bytes of the command line, or of JSON, that are not UTF-8."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestInputError(
                f"{origin}: expected text in UTF-8, got {text[:60]!a}",
                remedy="write the bytes to a file, and send it as it is: --input NAME=@FILE",
            ) from error


def _kind(array: Array, expected: tuple[type, ...] = (int, float)) -> str:
    """Name what an array has instead of the expected types."""
    if array.dtype.kind != "O":
        return _KINDS.get(array.dtype.type(0).item().__class__, f"values of NumPy's type {array.dtype}")
    kinds = dict.fromkeys(type(item) for item in array.flat if not isinstance(item, expected))
    return ", ".join(_KINDS.get(kind, kind.__name__) for kind in kinds) or "integers of more than 64 bits"


def _check_rows(arrays: Mapping[str, Array], manifest: Manifest) -> None:
    """Check that all inputs have the same number of rows, and no more than the model accepts."""
    if not manifest.max_batch:
        return
    rows = {name: len(array) for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in rows.items())
        raise RequestInputError(
            f"the inputs differ in their number of rows: {counts}", remedy="give each input the same rows"
        )
    count = max(rows.values(), default=1)
    if not count:
        raise RequestInputError("expected at least 1 row, got 0", remedy="give each input a value per row")
    if count > manifest.max_batch:
        raise RequestInputError(
            f"expected at most {manifest.max_batch} rows, got {count}",
            remedy="send several requests; `max_batch` in model.yaml sets the limit",
        )


def _suggestion(name: str, specs: Iterable[TensorSpec]) -> str:
    listed = list(specs)
    guess = closest(name, [spec.name for spec in listed])
    shown = ", ".join(described(spec) for spec in listed[:_LISTED]) or "none"
    return f"{f'did you mean {guess!r}? ' if guess else ''}its inputs: {shown}"
