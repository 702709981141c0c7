"""`examples.json`: a few requests of an artifact, and the right answers to them.

It lies beside the artifact, so that long after a build, and without its framework, whoever can reach an
endpoint can tell whether it answers as it should. It is a fact of the build that wrote it: the manifest names
it by its hash, the artifact's own digest does not cover it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tritonstack.base.documents import Record
from tritonstack.base.naming import Name
from tritonstack.records.json_records import parse_record
from tritonstack.records.manifests import Digest
from tritonstack.reference.datatypes import DatatypeName
from tritonstack.spec.models.tolerance import Tolerance

EXAMPLES_NAME = "examples.json"

Origin = Literal["framework", "given", "served", "itself"]
"""Who says what is right. framework: the library that the model came from. given: model.yaml, or a function
that it names. served: archives that were served and checked before, as those of an ensemble's models. itself:
the given file, run by the build; nothing else confirms its answers."""

Value = bool | int | float | str


class ExampleTensor(Record):
    """A tensor as it is sent or answered, with its batch dimension; its values are exact in either form."""

    name: str
    datatype: DatatypeName
    shape: tuple[Annotated[int, Field(ge=0)], ...]
    values: tuple[Value, ...] | None = None
    """In rows, one after the other; texts as texts."""
    packed: str | None = None
    """In the place of them, where they are many, or not to be written so: Triton's own bytes, compressed with
    zlib, in base64."""

    @model_validator(mode="after")
    def _one_form(self) -> ExampleTensor:
        if (self.values is None) == (self.packed is None):
            raise ValueError("a tensor has either values or packed ones")
        return self


class RightAnswer(ExampleTensor):
    """One output, and how far from it an answer may be."""

    tolerance: Tolerance
    """What the build asked of the served archive for this output, in the precision that it is served in."""


class PlaceInSequence(Record):
    """Where a request stands among those that a model with a state gets one after the other."""

    start: bool
    end: bool


class Example(Record):
    """One request, and the right answers."""

    name: str
    """Which test input it is."""
    origin: Origin
    inputs: Annotated[tuple[ExampleTensor, ...], Field(min_length=1)]
    outputs: Annotated[tuple[RightAnswer, ...], Field(min_length=1)]
    sequence: PlaceInSequence | None = None
    """Of models that keep a state: the examples are one sequence then, in their order."""


class Examples(Record):
    """What an artifact can be asked."""

    format: Literal[1] = 1
    model: Name
    digest: Digest
    """The artifact's."""
    requests: tuple[Example, ...] = ()
    texts: tuple[str, ...] = ()
    """In the place of them, for models that make up texts: any text is an answer."""
    none_because: str = ""
    """Why there is nothing to ask, where that is so."""

    @model_validator(mode="after")
    def _asks_or_tells_why(self) -> Examples:
        if not (self.requests or self.texts or self.none_because):
            raise ValueError("there is nothing to ask, and no reason for it")
        return self

    def to_json(self) -> str:
        """The text of examples.json."""
        return self.model_dump_json(exclude_defaults=True) + "\n"

    @property
    def sha256(self) -> str:
        """The hash of that text, by which a manifest names it."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def parse_examples(text: str | bytes, *, origin: str | Path) -> Examples:
    """The examples in `text`; `origin` says in errors where they came from."""
    return parse_record(
        Examples,
        text,
        origin=origin,
        fault="holds no examples",
        remedy="build the model again with `tritonstack build`",
    )
