"""`examples.json`: a few requests for an artifact, with expected outputs.

It is stored beside the artifact, so that an endpoint can be verified long after the build and without the
framework. The manifest names it by hash; the artifact's own digest does not cover it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tritonstack.base.naming import Name
from tritonstack.base.yaml import Choice, Record
from tritonstack.facts.datatypes import DatatypeName
from tritonstack.records.json_records import parse_record
from tritonstack.records.manifests import Digest
from tritonstack.spec.models.tolerance import Tolerance

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
