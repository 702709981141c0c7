"""`models/<name>/model.yaml`: where a model comes from, how it is built, and what counts as right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import Record, refuse
from tritonstack.base.naming import Name
from tritonstack.reference.datatypes import DatatypeName
from tritonstack.spec.models.inputs import AnyTestInput
from tritonstack.spec.models.recipes import EnsembleRecipe, Layout, Recipe
from tritonstack.spec.models.rules import model_faults
from tritonstack.spec.models.tensorrt import TensorRT
from tritonstack.spec.models.tolerance import Accept, Precision, WantedPrecision
from tritonstack.spec.models.triton_options import Batching, TritonOptions

SOURCE_FORMS = (
    "package://<distribution>==<version>/<folder>",
    "file://<folder in the model's folder>",
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
Reason = Annotated[str, Field(min_length=10)]


class Trust(Record):
    """What a build may do that can run code from elsewhere; each with the reason why it is all right here."""

    pickle: Reason | None = None
    """Load weights that are a pickle."""
    remote_code: Reason | None = None
    """Run Python that the model's repository brings along."""
    external_source: Reason | None = None
    """Read a `file://` source that is outside the model's folder."""


UNTRUSTED = Trust()
"""As a model's file is read that says nothing of trust."""

Labels = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class TensorNarrowing(Record):
    """What model.yaml says of a tensor where the graph leaves it open."""

    datatype: DatatypeName | None = None
    """Its type, for inline test inputs and for models that do not tell."""
    shape: tuple[Annotated[int, Field(ge=-1)], ...] | None = None
    """Its sizes without the batch dimension, -1 where they vary."""
    labels: Labels | None = None
    """What the places of an output mean."""


class ModelSpec(Record):
    """One model, as its file describes it."""

    name: Name
    """The model's name; its folder and Triton's entry model have the same one."""
    description: Annotated[str, Field(min_length=1)]
    """What the model does, for people."""
    source: Source | None = None
    """Where the weights come from, at an exact version."""
    recipe: Recipe
    """How the source becomes a Triton repository."""
    trust: Trust = Trust()
    """What the build may do that can run code from elsewhere."""
    allow_unused_weights: Mapping[Annotated[str, Field(min_length=1)], Reason] = Field(default_factory=dict)
    """Patterns of tensors that the source has and the model may leave unused, each with the reason."""
    precision: WantedPrecision = "fp32"
    """Number format of the served weights."""
    accept: Accept = Accept()
    """What counts as equal to the framework."""
    tensorrt: TensorRT | None = None
    """How engines are built, for recipes with `format: tensorrt`."""
    batching: Batching = Batching()
    """How requests are gathered."""
    triton: TritonOptions = TritonOptions()
    """Further parts of config.pbtxt."""
    tensors: Mapping[str, TensorNarrowing] = Field(default_factory=dict)
    """What is known of tensors beyond what the graph tells."""
    test_inputs: Annotated[tuple[AnyTestInput, ...], Field(min_length=1)]
    """What parity and served answers are checked with; include what your users will send."""

    @property
    def layout(self) -> Layout:
        """How many Triton models its artifact holds: one, or a pipeline of several."""
        return self.recipe.layout

    @property
    def members(self) -> tuple[str, ...]:
        """Other models that its artifact is made of."""
        return self.recipe.members if isinstance(self.recipe, EnsembleRecipe) else ()

    @property
    def test_texts(self) -> tuple[str, ...]:
        """The texts among its test inputs."""
        return tuple(test_input.text for test_input in self.test_inputs if test_input.text is not None)

    @property
    def takes_texts(self) -> bool:
        """Whether callers send it texts, as the tensor TEXT."""
        return self.test_inputs[0].kind == "texts" and self.layout == "ensemble"

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files beside model.yaml that the build reads."""
        config = (self.triton.config,) if self.triton.config else ()
        tests = (file for test_input in self.test_inputs for file in test_input.own_files)
        return tuple(dict.fromkeys((*self.recipe.own_files, *config, *tests)))

    @property
    def format(self) -> str | None:
        """What Triton runs, for recipes that leave a choice."""
        return getattr(self.recipe, "format", None)

    @property
    def generates(self) -> bool:
        """Whether it answers in parts, so that callers ask with `generate`."""
        return self.recipe.kind == "vllm"

    def tolerated(self, served: Precision) -> WantedPrecision:
        """The precision whose default tolerances hold for a graph of this model."""
        return "auto" if self.precision == "auto" and served != "fp32" else served

    @property
    def builds_for(self) -> tuple[Literal["cpu", "gpu"], ...]:
        """The kinds of machine that its artifacts run on; an ensemble's follow from its members too."""
        if self.format == "tensorrt" or self.generates or self.precision == "fp16":
            return ("gpu",)
        return ("cpu",) if self.precision != "fp32" else ("cpu", "gpu")

    @model_validator(mode="after")
    def _consistent(self) -> ModelSpec:
        refuse(model_faults(self))
        return self
