"""The fields of model.yaml: source, recipe, precision, tolerances, and test inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from tritonstack.base.naming import Name
from tritonstack.base.yaml import Record, matching
from tritonstack.facts.datatypes import DatatypeName
from tritonstack.files.model.inputs import AnyTestInput
from tritonstack.files.model.recipes import GenerationRecipe, Layout, PythonRecipe, Recipe, VllmRecipe
from tritonstack.files.model.tensorrt import TensorRT
from tritonstack.files.model.tolerance import ModelTolerance, Precision, PrecisionOption
from tritonstack.files.model.triton_options import Batching, TritonOptions

SOURCE_FORMS = (
    "package://<distribution>==<version>/<folder>",
    "file://<folder in the model's folder>",
    "hf://<org>/<name>@<revision>",
    "s3://<bucket>/<prefix>",
)
_SOURCES = (
    r"package://[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+/.+",
    r"file://.+",
    r"hf://[A-Za-z0-9._-]+/[A-Za-z0-9._-]+@[A-Za-z0-9._-]+",
    r"s3://[a-z0-9][a-z0-9.-]+/.+",
)

Source = Annotated[
    str, matching("|".join(_SOURCES), f"invalid source {{}}; use one of {'  '.join(SOURCE_FORMS)}")
]
Reason = Annotated[str, Field(min_length=10)]


class Trust(Record):
    """Permissions for a build to run code from elsewhere, each with the reason why it is safe."""

    pickle: Reason | None = None
    """Load weights stored as a pickle."""
    remote_code: Reason | None = None
    """Run Python code from the model's repository."""
    external_source: Reason | None = None
    """Read a `file://` source outside the model's folder."""


UNTRUSTED = Trust()
"""The default: nothing is trusted."""

Labels = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class TensorNarrowing(Record):
    """Properties of a tensor that the graph does not define."""

    datatype: DatatypeName | None = None
    """Its datatype, for inline test inputs and for models that do not declare it."""
    shape: tuple[Annotated[int, Field(ge=-1)], ...] | None = None
    """Its shape without the batch dimension; -1 for variable dimensions."""
    labels: Labels | None = None
    """Labels of an output's values."""


class ModelFields(Record):
    """The fields of a model.yaml file, each valid by itself."""

    name: Name
    """The model's name; also the name of its folder and of Triton's entry model."""
    description: Annotated[str, Field(min_length=1)]
    """What the model does."""
    source: Source | None = None
    """Where the weights come from, with an exact version."""
    recipe: Recipe
    """How to convert the source into a Triton model repository."""
    trust: Trust = Trust()
    """Permissions for the build to run code from elsewhere."""
    allow_unused_weights: Mapping[Annotated[str, Field(min_length=1)], Reason] = Field(default_factory=dict)
    """Patterns of source tensors that the model may leave unused, each with the reason."""
    precision: PrecisionOption = "fp32"
    """Number format of the served weights."""
    accept: ModelTolerance = ModelTolerance()
    """How far results may differ from the framework's."""
    tensorrt: TensorRT | None = None
    """How to build engines, for recipes with `format: tensorrt`."""
    batching: Batching = Batching()
    """How Triton batches requests."""
    triton: TritonOptions = TritonOptions()
    """Other options of config.pbtxt."""
    tensors: Mapping[str, TensorNarrowing] = Field(default_factory=dict)
    """Properties of tensors that the graph does not define."""
    test_inputs: Annotated[tuple[AnyTestInput, ...], Field(min_length=1)]
    """Inputs for parity and endpoint checks; include what your users will send."""

    @property
    def layout(self) -> Layout:
        """Number of Triton models in its artifact: one, or an ensemble."""
        return self.recipe.layout

    @property
    def members(self) -> tuple[str, ...]:
        """Other models that are part of its artifact."""
        return self.recipe.members

    @property
    def test_texts(self) -> tuple[str, ...]:
        """The texts in its test inputs."""
        return tuple(test_input.text for test_input in self.test_inputs if test_input.text is not None)

    @property
    def takes_texts(self) -> bool:
        """Whether callers send texts, as the tensor TEXT."""
        return self.test_inputs[0].kind == "texts" and self.layout == "ensemble"

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files beside model.yaml that the build reads."""
        config = (self.triton.config,) if self.triton.config else ()
        tests = (file for test_input in self.test_inputs for file in test_input.own_files)
        return tuple(dict.fromkeys((*self.recipe.own_files, *config, *tests)))

    @property
    def format(self) -> str | None:
        """Format of the served model, for recipes that offer a choice."""
        return getattr(self.recipe, "format", None)

    @property
    def generates(self) -> bool:
        """Whether it is a generative model, called with `generate`."""
        return isinstance(self.recipe, VllmRecipe | GenerationRecipe)

    @property
    def decoupled(self) -> bool:
        """Whether it can send several responses per request."""
        return self.generates or (isinstance(self.recipe, PythonRecipe) and self.recipe.decoupled)

    @property
    def streams(self) -> bool:
        """Whether it is a decoupled model with tensors of its own, called with `generate_stream`."""
        return self.decoupled and not self.generates

    def tolerated(self, served: Precision) -> PrecisionOption:
        """Return the precision whose default tolerances apply to a graph of this model."""
        return "auto" if self.precision == "auto" and served != "fp32" else served

    @property
    def builds_for(self) -> tuple[Literal["cpu", "gpu"], ...]:
        """Hardware that its artifacts run on; for ensembles, the members restrict it further."""
        if self.format == "tensorrt" or self.recipe.kind == "vllm" or self.precision == "fp16":
            return ("gpu",)
        if isinstance(self.recipe, GenerationRecipe):
            return ("cpu",)
        return ("cpu",) if self.precision != "fp32" else ("cpu", "gpu")
