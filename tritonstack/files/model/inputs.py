"""`test_inputs` of a model: the inputs it is checked with. They should resemble production requests."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator

from tritonstack.base.yaml import Choice, Record
from tritonstack.files.model.recipes import InputKind, OwnFile, check_own_file

WRITE_ANSWERS = (
    "give expected outputs: `outputs` beside `inputs`, or arrays named outputs/<name> in the .npz file"
)
"""The remedy for models without a reference framework."""
NEEDS_VNNI = "its 8-bit weights overflow on CPUs without VNNI, such as ml.c5, ml.m6a, and older"
"""Why an artifact with a graph that was quantized elsewhere is unverified."""
WRITE_RESPONSES = "write `responses: [{...}, ...]` beside `inputs`"
"""The remedy for decoupled models."""


def answers_remedy(unverified: Iterable[str]) -> str:
    """Return how to verify an artifact that is not, for these reasons."""
    if any(NEEDS_VNNI in reason for reason in unverified):
        return "give the graph in fp32 with `precision: int8`, or quantize it with `reduce_range=True`"
    return WRITE_ANSWERS


Text = Annotated[str, Field(min_length=1)]


class RandomInputs(Record):
    """Random arrays, identical in every build."""

    rows: Annotated[int, Field(ge=1, le=1024)] = 4
    """Number of one-row requests."""
    # Not strict: pydantic no longer sees a YAML list as a list after a validator function.
    sizes: Mapping[str, Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False)]] = Field(
        default_factory=dict
    )
    """Shapes of inputs with variable dimensions, without the batch dimension."""
    below: Annotated[int, Field(ge=2)] = 100
    """Upper bound (exclusive) of random integers; the lower bound is 0."""


class TestInput(Record):
    """One request with one row. A plain string means `text: ...`."""

    __test__ = False  # not a pytest class
    alternatives: ClassVar = (Choice(("text", "question", "image", "inputs", "file", "random")),)

    text: Text | None = None
    """Input text, for text models."""
    text_pair: Text | None = None
    """The second text, for models of text pairs: a passage for the query in `text`, or a hypothesis."""
    question: Text | None = None
    """A question, for question-answering models; requires context."""
    context: Text | None = None
    """The text that contains the answer."""
    image: OwnFile | None = None
    """An image file beside model.yaml, for image models."""
    inputs: Mapping[str, Any] | None = None
    """Named tensors as nested lists, without the batch dimension. Bytes are `{file: <file>}`, a file beside
    model.yaml, `{base64: <text>}`, or `!!binary`."""
    outputs: Mapping[str, Any] | None = None
    """Expected outputs for `inputs`, or for the text or image of a given graph, if no framework can compute
    them."""
    # Not strict, as `sizes` above.
    responses: Annotated[tuple[Mapping[str, Any], ...], Field(min_length=1, strict=False)] | None = None
    """Expected responses of a decoupled model to `inputs`, in order; each with all outputs."""
    file: OwnFile | None = None
    """An .npz file beside model.yaml: named arrays whose first dimension is the row. Expected outputs are
    named `outputs/<name>`."""
    random: RandomInputs | None = None
    """Random numbers, for models with declared tensors."""

    @property
    def kind(self) -> InputKind:
        """The kind of model it suits."""
        forms: dict[InputKind, Any] = {
            "pairs": self.text_pair,
            "texts": self.text,
            "questions": self.question,
            "images": self.image,
        }
        return next((kind for kind, value in forms.items() if value is not None), "tensors")

    @property
    def texts(self) -> tuple[str, ...]:
        """Its texts, in the order of the tensors that callers send."""
        texts = (self.text, self.text_pair, self.question, self.context)
        return tuple(text for text in texts if text is not None)

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files beside model.yaml that it uses."""
        files = (self.image, self.file, *(leaf.get("file") for leaf in self._bytes))
        return tuple(file for file in files if file is not None)

    @property
    def _bytes(self) -> Iterator[Mapping[str, Any]]:
        """Yield the values that are bytes: `{file: ...}` or `{base64: ...}`."""
        for tensors in (self.inputs, self.outputs, *(self.responses or ())):
            for value in (tensors or {}).values():
                yield from _mappings_in(value)

    @model_validator(mode="after")
    def _complete(self) -> TestInput:
        for leaf in self._bytes:
            _check_bytes(leaf)
        if self.question is None and self.context is not None and self.kind != "tensors":
            raise ValueError("`context` goes with `question` only; remove `context`")
        if (self.question is None) != (self.context is None):
            raise ValueError("`question` and `context` require each other; write both")
        if self.text_pair is not None and self.text is None:
            raise ValueError("`text_pair` goes with `text` only; write both")
        if self.outputs is not None and (self.inputs, self.text, self.image) == (None, None, None):
            raise ValueError("`outputs` requires `inputs`, `text`, or `image`; write both")
        if self.responses is not None and (self.inputs is None or self.outputs is not None):
            raise ValueError(
                "`responses` requires `inputs` and excludes `outputs`; write both `inputs` and it"
            )
        return self


def _mappings_in(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _mappings_in(item)


def _check_bytes(leaf: Mapping[str, Any]) -> None:
    kind, text = next(iter(leaf.items()), ("", None))
    if len(leaf) != 1 or kind not in ("file", "base64") or not isinstance(text, str):
        raise ValueError("bytes are written as `{file: <file>}` or `{base64: <text>}`")
    if kind == "file":
        check_own_file(text)
        return
    try:
        base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"invalid base64: {error}") from error


def _from_text(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


AnyTestInput = Annotated[TestInput, BeforeValidator(_from_text, json_schema_input_type=str | TestInput)]
