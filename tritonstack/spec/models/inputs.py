"""`test_inputs` of a model: what it is checked with. What users will send belongs here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from tritonstack.base.documents import Record
from tritonstack.spec.models.recipes import InputKind, OwnFile

WRITE_ANSWERS = (
    "write right answers: `outputs` beside `inputs`, or arrays named outputs/<name> in the .npz file"
)
"""The remedy for a model that has no framework to compare with."""
Text = Annotated[str, Field(min_length=1)]


class RandomInputs(Record):
    """Arrays of random numbers, the same at every build."""

    rows: Annotated[int, Field(ge=1, le=1024)] = 4
    """How many requests of one row."""
    # Not strict: a list of YAML that has passed a function of Python is one no more.
    sizes: Mapping[str, Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False)]] = Field(
        default_factory=dict
    )
    """Shapes without the batch dimension, of inputs whose sizes vary."""
    below: Annotated[int, Field(ge=2)] = 100
    """Whole numbers are from 0 to one less than this."""


class TestInput(Record):
    """One request of one row. A plain text stands for `text: ...`."""

    __test__ = False  # not one of pytest's

    text: Text | None = None
    """For models that take texts."""
    question: Text | None = None
    """For models that answer questions, together with context."""
    context: Text | None = None
    """Where the answer is to be found."""
    image: OwnFile | None = None
    """An image file beside model.yaml, for models that take images."""
    inputs: Mapping[str, Any] | None = None
    """Named tensors as nested lists, without the batch dimension."""
    outputs: Mapping[str, Any] | None = None
    """The right answers to `inputs`, where there is no framework that could give them."""
    file: OwnFile | None = None
    """An .npz file beside model.yaml: named arrays whose first dimension counts rows; right answers are
    named `outputs/<name>`."""
    random: RandomInputs | None = None
    """Random numbers, for models whose tensors say what they take."""

    @property
    def kind(self) -> InputKind | None:
        """For which models this is; None if it is nothing, or several things at once."""
        forms: dict[InputKind, bool] = {
            "texts": self.text is not None,
            "questions": self.question is not None and self.context is not None,
            "images": self.image is not None,
            "tensors": sum(form is not None for form in (self.inputs, self.file, self.random)) == 1,
        }
        given = [kind for kind, is_given in forms.items() if is_given]
        return given[0] if len(given) == 1 else None

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files beside model.yaml that it reads."""
        return tuple(file for file in (self.image, self.file) if file is not None)

    @model_validator(mode="after")
    def _one_thing(self) -> TestInput:
        if self.kind is None:
            raise ValueError(
                "this is not one test input; write a text, question with context, image, inputs, file "
                "or random"
            )
        if self.outputs is not None and self.inputs is None:
            raise ValueError("outputs belong to inputs; write both")
        return self


def _from_text(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


AnyTestInput = Annotated[TestInput, BeforeValidator(_from_text, json_schema_input_type=str | TestInput)]
