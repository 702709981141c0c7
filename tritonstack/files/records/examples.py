"""`examples.json`: a few requests for an artifact, with expected outputs.

It is stored beside the artifact, so that an endpoint can be verified long after the build and without the
framework. The manifest names it by hash; the artifact's own digest does not cover it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import zlib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tritonstack.base.byte_tensors import BYTES, datatype_of, numpy_type, raw_bytes, split_strings
from tritonstack.base.error_kinds import ArtifactNotFoundError
from tritonstack.base.naming import Name
from tritonstack.base.yaml import Choice, Record
from tritonstack.facts.datatypes import DatatypeName
from tritonstack.files.model.tolerance import Tolerance
from tritonstack.files.records.manifests import Digest, parse_record

EXAMPLES_NAME = "examples.json"

Origin = Literal["framework", "given", "served", "itself"]
"""Source of the expected outputs. framework: the model's original library. given: model.yaml, or a function
it names. served: verified artifacts, for example of an ensemble's members. itself: the given file, run by the
build without further confirmation."""

Value = bool | int | float | str


class ExampleTensor(Record):
    """A request or response tensor with its batch dimension; both forms are exact."""

    alternatives: ClassVar = (Choice(("values", "packed")),)

    name: str
    datatype: DatatypeName
    shape: tuple[Annotated[int, Field(ge=0)], ...]
    values: tuple[Value, ...] | None = None
    """Values in row-major order; texts as text."""
    packed: str | None = None
    """Replaces `values` if there are many, or if text cannot represent them: Triton's bytes, compressed with
    zlib, in base64."""


class RightAnswer(ExampleTensor):
    """An expected output and its tolerance."""

    tolerance: Tolerance
    """Tolerance that the build applied to the served artifact for this output and precision."""


class PlaceInSequence(Record):
    """Position of a request in a sequence, for stateful models."""

    start: bool
    end: bool


class Example(Record):
    """A request with its expected outputs."""

    name: str
    """Name of the test input."""
    origin: Origin
    inputs: Annotated[tuple[ExampleTensor, ...], Field(min_length=1)]
    outputs: tuple[RightAnswer, ...] = ()
    responses: tuple[Annotated[tuple[RightAnswer, ...], Field(min_length=1)], ...] = ()
    """Replaces `outputs` for decoupled models: the outputs of each response, in order."""
    sequence: PlaceInSequence | None = None
    """For stateful models: the examples form one sequence, in order."""

    @model_validator(mode="after")
    def _outputs_or_responses(self) -> Example:
        if bool(self.outputs) == bool(self.responses):
            raise ValueError("expected outputs or responses")
        return self


class Examples(Record):
    """The examples of an artifact."""

    format: Literal[1] = 1
    model: Name
    digest: Digest
    """Digest of the artifact."""
    requests: tuple[Example, ...] = ()
    texts: tuple[str, ...] = ()
    """Replaces `examples` for generative models: any text is a valid response."""
    none_because: str = ""
    """Why there are no examples."""

    @model_validator(mode="after")
    def _examples_or_reason(self) -> Examples:
        if not (self.requests or self.texts or self.none_because):
            raise ValueError("expected examples or a reason for having none")
        return self

    def to_json(self) -> str:
        """Serialize the examples."""
        return self.model_dump_json(exclude_defaults=True) + "\n"

    @property
    def sha256(self) -> str:
        """SHA-256 of that text, stored in the manifest."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def parse_examples(text: str | bytes, *, origin: str | Path) -> Examples:
    """Parse examples; `origin` names their source in errors."""
    return parse_record(
        Examples,
        text,
        origin=origin,
        failure="holds no examples",
        remedy="rebuild the model with `tritonstack build`",
    )


Array = NDArray[Any]
MOST_VALUES = 1024
"""Maximum number of values written as text for reviewers."""
MOST_BYTES = 64 << 20
"""Maximum unpacked size of texts: Triton's request limit."""
_UNREADABLE = (ValueError, TypeError, OverflowError, zlib.error, binascii.Error)


def tensor_of(name: str, array: Array) -> ExampleTensor:
    """Convert an array to an example tensor."""
    texts = array.astype(np.object_) if array.dtype.kind in "US" else array
    datatype = datatype_of(texts.dtype)
    if datatype is None:
        raise ArtifactNotFoundError(
            f"{name}: Triton has no datatype for NumPy's {array.dtype}",
            remedy="convert the array to a numeric, bool, or string type, such as float32",
        )
    values = _texts(texts) if datatype == BYTES else _numbers(texts)
    return ExampleTensor(
        name=name,
        datatype=datatype,
        shape=texts.shape,
        values=values,
        packed=_packed(texts) if values is None else None,
    )


def array_of(tensor: ExampleTensor) -> Array:
    """Convert an example tensor to an array; texts become bytes, as in Triton's responses."""
    dtype = numpy_type(tensor.datatype)
    try:
        flat = _unpacked(tensor, dtype) if tensor.values is None else _filled(tensor.values, dtype)
        return flat.reshape(tensor.shape)
    except _UNREADABLE as error:
        raise ArtifactNotFoundError(
            f"invalid example tensor {tensor.name} ({tensor.datatype} {list(tensor.shape)}): {error}",
            remedy="rebuild the model with `tritonstack build`",
        ) from error


def _texts(array: Array) -> tuple[Value, ...] | None:
    """Return texts; None if any value is not text, such as image bytes."""
    if array.size > MOST_VALUES:
        return None
    try:
        return tuple(item.decode() if isinstance(item, bytes) else str(item) for item in array.flat)
    except UnicodeDecodeError:
        return None


def _numbers(array: Array) -> tuple[Value, ...] | None:
    """Return numbers with the fewest digits that identify them; None if JSON cannot represent one."""
    if array.size > MOST_VALUES or not np.isfinite(array).all():
        return None
    if array.dtype.kind == "f":
        return tuple(float(str(number)) for number in array.flat)
    return tuple(array.ravel().tolist())


def _packed(array: Array) -> str:
    return base64.b64encode(zlib.compress(raw_bytes(array), level=9)).decode()


def _filled(values: tuple[Value, ...], dtype: np.dtype[Any]) -> Array:
    if dtype == np.object_:
        return np.array([str(value).encode() for value in values], dtype=np.object_)
    return np.array(values, dtype=dtype)


def _unpacked(tensor: ExampleTensor, dtype: np.dtype[Any]) -> Array:
    is_text = dtype == np.object_
    limit = MOST_BYTES if is_text else dtype.itemsize * math.prod(tensor.shape)
    unpacking = zlib.decompressobj()
    raw = unpacking.decompress(base64.b64decode(tensor.packed or "", validate=True), limit + 1)
    if len(raw) > limit or not unpacking.eof:
        raise ValueError(f"expected {limit} unpacked bytes, got another size")
    if is_text:
        return split_strings(raw, math.prod(tensor.shape))
    return np.frombuffer(raw, dtype=dtype.newbyteorder("<")).astype(dtype)
