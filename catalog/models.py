"""`models/<name>/model.yaml`: where a model comes from, how it is built, and what counts as right."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from catalog.documents import Record
from catalog.naming import Name

BUILDER_VERSION = 1
"""Raised when model_build makes other bytes from the same model.yaml."""

SOURCE_FORMS = (
    "package://<distribution>==<version>/<folder>",
    "file://<folder, relative to model.yaml>",
    "hf://<org>/<name>@<revision>",
    "s3://<bucket>/<prefix>",
)
_SOURCES = (
    re.compile(r"package://[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+/.+"),
    re.compile(r"file://.+"),
    re.compile(r"hf://[A-Za-z0-9._-]+/[A-Za-z0-9._-]+@[A-Za-z0-9._-]+"),
    re.compile(r"s3://[a-z0-9][a-z0-9.-]+/.+"),
)


def _check_source(text: str) -> str:
    if not any(form.fullmatch(text) for form in _SOURCES):
        raise ValueError(f"{text!r} is not a source; use one of {'  '.join(SOURCE_FORMS)}")
    return text


Source = Annotated[str, AfterValidator(_check_source)]


class TextEmbeddingRecipe(Record):
    """A Hugging Face text encoder whose tokens are pooled into one vector a text."""

    builds_for: ClassVar[tuple[str, ...]] = ("cpu",)
    """The hardware of its artifacts."""

    kind: Literal["text-embedding"]
    input: Literal["text", "tokens"] = "text"
    """What callers send: texts, which a tokenizer beside the encoder splits, or ids of tokens and a mask."""
    pooling: Literal["mean", "cls", "max"] = "mean"
    """How token vectors become one vector."""
    normalize: bool = True
    """Scale each vector to length 1, so that a dot product is the cosine."""
    max_length: Annotated[int, Field(ge=2, le=8192)] = 256
    """Longer texts are cut to this many tokens."""
    trust_remote_code: bool = False
    """Run Python that the model's repository brings along. Only for repositories you have read."""


class Accept(Record):
    """How far the built model may be from the framework's answer."""

    cosine: Annotated[float, Field(ge=-1, le=1)] = 0.9999
    """Lowest cosine similarity of any output row."""
    absolute: Annotated[float, Field(gt=0)] = 1e-4
    """Largest difference of any output value."""


class Batching(Record):
    """How Triton gathers requests."""

    max_batch: Annotated[int, Field(ge=1, le=4096)] = 32
    """Largest batch the model is run with."""
    queue_delay_us: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """How long a request may wait for company; 0 gathers only what waits already."""


class ModelSpec(Record):
    """One model, as its file describes it."""

    name: Name
    """The model's name; its folder and Triton's entry model have the same one."""
    description: Annotated[str, Field(min_length=1)]
    """What the model does, for people."""
    source: Source
    """Where the weights come from, at an exact version."""
    recipe: TextEmbeddingRecipe
    """How the source becomes a Triton repository."""
    precision: Literal["fp32"] = "fp32"
    """Number format of the served weights."""
    accept: Accept = Accept()
    """What counts as equal to the framework."""
    batching: Batching = Batching()
    """How requests are gathered."""
    test_inputs: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    """Texts that parity and served answers are checked with; include what your users will send."""

    @property
    def layout(self) -> Literal["single", "ensemble"]:
        """How many Triton models its artifact holds: one, or a pipeline of several."""
        return "single" if self.recipe.input == "tokens" else "ensemble"

    @property
    def hash(self) -> str:
        """Changes whenever the artifact has to be built again."""
        facts = {"builder": BUILDER_VERSION, "spec": self.model_dump(mode="json", exclude={"description"})}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @model_validator(mode="after")
    def _distinct_inputs(self) -> ModelSpec:
        if len(set(self.test_inputs)) != len(self.test_inputs):
            raise ValueError("test_inputs: a text stands twice; keep one of each")
        return self
