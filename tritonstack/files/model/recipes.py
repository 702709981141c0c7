"""Recipes of `model.yaml`: how to convert a source into a Triton repository. One record per kind.

Hugging Face   text-embedding, text-classification, text-pair-classification, token-classification,
               question-answering, feature-extraction, image-classification, image-embedding
as given       torchscript, onnx, trees, scikit-learn, python, triton
language       vllm, text-generation, text-to-text
composed       ensemble
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.error_kinds import CompositionError
from tritonstack.base.naming import Name
from tritonstack.base.yaml import Choice, Record, raise_violations

Layout = Literal["single", "ensemble"]
InputKind = Literal["texts", "pairs", "questions", "images", "tensors"]
Format = Literal["onnx", "torchscript", "tensorrt"]
LONGEST_TEXT = 8192
TokenCount = Annotated[int, Field(ge=2, le=LONGEST_TEXT)]
PoolingMode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
"""Pooling modes, named as in sentence-transformers."""
SETTINGS = (
    "pooling",
    "normalize",
    "max_length",
    "prompt",
    "truncate_dim",
    "num_beams",
    "quantization_config",
)
"""Usual keys of `overrides`. Others are names of files and settings that the recipe does not read."""


def check_own_file(text: str) -> str:
    """Return the name of a file in the folder of model.yaml; raise ValueError if it is none."""
    parts = text.split("/")
    if text.startswith("/") or ".." in parts or not re.fullmatch(r"[A-Za-z0-9._/-]+", text):
        raise ValueError(
            f"invalid file name {text!r}; name a file in the folder of model.yaml, "
            "using letters, digits, '.', '_', '-', and '/'"
        )
    return text


OwnFile = Annotated[str, AfterValidator(check_own_file)]
"""A file in the model's folder; its content is part of the model's hash."""


def _check_entry(text: str) -> str:
    file, _, function = text.partition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise ValueError(f"invalid entry point {text!r}; write <file>.py:<function>")
    check_own_file(file)
    return text


EntryPoint = Annotated[str, AfterValidator(_check_entry)]
"""`file.py:function` in the model's folder."""


class RecipeOptions(Record):
    """Common to all recipes. Most take tensors, make one Triton model, and need no other file or model."""

    bare_input: ClassVar = ""
    """The value of `input` for which the artifact has no model before the graph."""

    @property
    def takes(self) -> InputKind:
        """What callers send."""
        return "tensors"

    @property
    def layout(self) -> Layout:
        """Number of Triton models in its artifact: one, or an ensemble."""
        return "single" if getattr(self, "input", "") == self.bare_input else "ensemble"

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        return ()

    @property
    def members(self) -> tuple[str, ...]:
        """Other models of this repository that it consists of or calls, without duplicates."""
        return ()


class SourcedRecipe(RecipeOptions):
    """Common options of recipes for a folder of Hugging Face."""

    overrides: Mapping[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=10)]] = Field(
        default_factory=dict
    )
    """Files and settings of the source that the recipe leaves out or replaces, each with the reason."""


class HuggingFaceRecipe(SourcedRecipe):
    """Common options of Hugging Face recipes."""

    format: Format = "onnx"
    """What Triton runs: the ONNX graph, a TorchScript module, or a TensorRT engine."""


class TextRecipe(HuggingFaceRecipe):
    """Common options of text recipes."""

    takes: ClassVar[InputKind] = "texts"
    bare_input: ClassVar = "tokens"
    usual_length: ClassVar = 256
    """Default of max_length if the source has none."""

    input: Literal["text", "tokens"] = "text"
    """What callers send: texts, which a tokenizer model splits, or token ids and a mask."""
    max_length: TokenCount | None = None
    """Longer texts are truncated to this many tokens. Default: 256, or fewer if the tokenizer or the model's
    positions allow fewer; text-embedding uses the source's value."""
    one_model: bool | None = None
    """Run the tokenizer and the graph in one Python model, which sorts texts by length and computes almost no
    padding. Default: true for ONNX graphs on CPUs with one row per text, unless `triton` has settings for
    Triton's ONNX Runtime backend."""
    batch_tokens: Annotated[int, Field(ge=16, le=16_384)] | None = None
    """Tokens per thread, with padding, of the small batches that a tokenizer and a graph in one model run.
    Default: 128. `tritonstack tune` measures it."""


class TextEmbeddingRecipe(TextRecipe):
    """A text encoder with pooling: one vector per text."""

    kind: Literal["text-embedding"]
    pooling: PoolingMode | Annotated[tuple[PoolingMode, ...], Field(min_length=1)] | None = None
    """How token vectors become one vector; several modes are concatenated. Default: the source's, or mean."""
    normalize: bool | None = None
    """Scale each vector to length 1, so that a dot product is the cosine. Default: the source's, or true."""

    @property
    def modes(self) -> tuple[PoolingMode, ...] | None:
        """The pooling modes as a tuple; None if the source decides."""
        return (self.pooling,) if isinstance(self.pooling, str) else self.pooling


class TextClassificationRecipe(TextRecipe):
    """A text classifier: one score per label."""

    kind: Literal["text-classification"]
    activation: Literal["softmax", "sigmoid", "none"] | None = None
    """Activation for the scores; default: the model's own configuration."""


class TextPairClassificationRecipe(TextRecipe):
    """A classifier of two texts, such as a reranker or an NLI model: one score per label."""

    takes: ClassVar[InputKind] = "pairs"
    usual_length: ClassVar = 512

    kind: Literal["text-pair-classification"]
    activation: Literal["softmax", "sigmoid", "none"] | None = None
    """Activation for the scores; default: the one that sentence-transformers saved for its CrossEncoder, else
    the model's own configuration."""
    max_length: TokenCount | None = None
    """Maximum tokens of both texts together; the longer text is truncated first. Default: what the tokenizer
    and the model's positions allow, else 512."""


class TokenClassificationRecipe(TextRecipe):
    """A token classifier: one score per label for each token."""

    kind: Literal["token-classification"]


class QuestionAnsweringRecipe(TextRecipe):
    """A model that extracts the answer to a question from a context."""

    takes: ClassVar[InputKind] = "questions"
    usual_length: ClassVar = 384

    kind: Literal["question-answering"]
    max_length: TokenCount | None = None
    """Maximum tokens of question and context together; longer contexts are truncated. Default: 384, or fewer
    if the tokenizer or the model's positions allow fewer."""
    max_answer_tokens: Annotated[int, Field(ge=1, le=512)] = 15
    """Maximum length of an answer."""


class FeatureExtractionRecipe(TextRecipe):
    """A text encoder without pooling: one vector per token."""

    kind: Literal["feature-extraction"]


class ImageRecipe(HuggingFaceRecipe):
    """Common options of image recipes."""

    takes: ClassVar[InputKind] = "images"
    bare_input: ClassVar = "pixels"

    library: Literal["transformers", "timm"] = "transformers"
    """The library that saved the source: its config.json has a `model_type` (transformers) or an
    `architecture` (timm)."""
    input: Literal["image", "pixels"] = "image"
    """What callers send: image files, which a preprocessing model decodes and scales, or scaled pixels."""


class ImageClassificationRecipe(ImageRecipe):
    """An image classifier: one score per label."""

    kind: Literal["image-classification"]
    activation: Literal["softmax", "sigmoid", "none"] | None = None
    """Activation for the scores; default: the model's own configuration."""


class ImageEmbeddingRecipe(ImageRecipe):
    """The image model of CLIP, or a timm model without its classifier: one vector per image."""

    kind: Literal["image-embedding"]
    normalize: bool = True
    """Scale each vector to length 1, so that a dot product is the cosine."""


class GraphRecipe(RecipeOptions):
    """Common options of recipes for graphs, which can have a tokenizer or an image decoder in front."""

    bare_input: ClassVar = "tensors"

    input: Literal["tensors", "text", "image"] = "tensors"
    """What callers send: the graph's tensors, texts for a tokenizer, or image files for a decoder."""
    processor: OwnFile | None = None
    """Folder of the source with the files of the tokenizer or image processor. Default: the source itself."""
    max_length: TokenCount | None = None
    """Longer texts are truncated to this many tokens. Default: the tokenizer's value, else 256."""

    @property
    def takes(self) -> InputKind:
        """What callers send."""
        kinds: dict[str, InputKind] = {"text": "texts", "image": "images"}
        return kinds.get(self.input, "tensors")

    @model_validator(mode="after")
    def _options_of_the_input(self) -> GraphRecipe:
        if self.processor is not None and self.input == "tensors":
            raise ValueError("`processor` requires `input: text` or `input: image`")
        if self.max_length is not None and self.input != "text":
            raise ValueError("`max_length` requires `input: text`")
        return self


class TorchScriptRecipe(GraphRecipe):
    """A TorchScript module: a saved file, or traced from a function that creates the module."""

    alternatives: ClassVar = (Choice(("file", "entry")),)

    kind: Literal["torchscript"]
    file: OwnFile | None = None
    """File in the source saved with torch.jit."""
    entry: EntryPoint | None = None
    """`file.py:function` beside model.yaml; receives the source's folder and returns the module to trace."""

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        return (self.entry.partition(":")[0],) if self.entry else ()


class OnnxRecipe(GraphRecipe):
    """An ONNX graph."""

    kind: Literal["onnx"]
    file: OwnFile = "model.onnx"
    """The graph in the source."""
    format: Literal["onnx", "tensorrt"] = "onnx"
    """What Triton runs: the graph, or a TensorRT engine built from it."""


class TreesRecipe(RecipeOptions):
    """Tree models of XGBoost, LightGBM, or scikit-learn, for Triton's FIL backend."""

    kind: Literal["trees"]
    file: OwnFile
    """The saved model in the source."""
    library: Literal["xgboost", "lightgbm", "scikit-learn", "treelite"] | None = None
    """Library that saved the model; default: detected from the file."""
    answer: Literal["value", "class", "probabilities"] | None = None
    """Output of the model; default: probabilities for classifiers, values otherwise."""
    shap: bool = False
    """Whether FIL also returns SHAP values (`treeshap_output`), for XGBoost and LightGBM."""

    @property
    def is_lightgbm(self) -> bool:
        """Whether the file is in LightGBM's text format, according to its name or `library`."""
        return self.library == "lightgbm" or (self.library is None and self.file.endswith(".txt"))


class ScikitLearnRecipe(RecipeOptions):
    """A scikit-learn model or pipeline, converted to an ONNX graph by skl2onnx."""

    kind: Literal["scikit-learn"]
    file: OwnFile
    """The model in the source, saved with joblib or pickle."""


class PythonRecipe(RecipeOptions):
    """Your own model for Triton's Python backend."""

    alternatives: ClassVar = (Choice(("requirements", "environment"), required=False),)

    kind: Literal["python"]
    code: OwnFile = "model.py"
    """File with the class TritonPythonModel, beside model.yaml."""
    requirements: OwnFile | None = None
    """pip requirements file of packages beyond NumPy, each with an exact version."""
    environment: OwnFile | None = None
    """A conda-pack archive, instead of requirements."""
    pythons: tuple[Annotated[str, Field(pattern=r"^3\.\d+$")], ...] = ()
    """Python versions to bundle compiled packages for; default: those of all Triton releases."""
    reference: EntryPoint | None = None
    """`file.py:function` that maps input arrays to expected outputs; or give these in test_inputs. If the
    function has a parameter `source`, it gets the folder of the source."""
    calls: tuple[Name, ...] = ()
    """Models of this repository that the code calls with `pb_utils.InferenceRequest`."""
    decoupled: bool = False
    """The code sends any number of responses per request (`request.get_response_sender()`), and callers get
    each when it is sent. Test inputs have `responses` instead of `outputs`."""

    @property
    def members(self) -> tuple[str, ...]:
        """The models that it calls, without duplicates."""
        return tuple(dict.fromkeys(self.calls))

    @property
    def layout(self) -> Layout:
        """Number of Triton models in its artifact: one, or an ensemble."""
        return "ensemble" if self.calls else "single"

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        reference = self.reference.partition(":")[0] if self.reference else None
        return tuple(
            file for file in (self.code, self.requirements, self.environment, reference) if file is not None
        )

    @model_validator(mode="after")
    def _requirements_for_pythons(self) -> PythonRecipe:
        if self.pythons and not self.requirements:
            raise ValueError("`pythons` applies only to `requirements`, which is missing; remove it")
        return self


class VllmRecipe(SourcedRecipe):
    """A language model for Triton's vLLM backend."""

    takes: ClassVar[InputKind] = "texts"

    kind: Literal["vllm"]
    engine: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the vLLM engine, as in model.json; the build sets the model's path."""


class TritonRecipe(Record):
    """A Triton repository: one model, or an ensemble with its parts. Files stay as they are."""

    takes: ClassVar[InputKind] = "tensors"
    own_files: ClassVar[tuple[str, ...]] = ()
    members: ClassVar[tuple[str, ...]] = ()

    kind: Literal["triton"]
    layout: Layout = "single"
    """What the repository holds: one model (single), or an ensemble with its parts."""


class GenerationRecipe(SourcedRecipe):
    """Common options of models that write texts on CPUs, token by token."""

    takes: ClassVar[InputKind] = "texts"

    max_tokens: Annotated[int, Field(ge=32, le=131_072)] = 256
    """Most new tokens per request, and the default of the parameter `max_tokens`."""
    max_length: Annotated[int, Field(ge=64, le=131_072)] | None = None
    """Most tokens of a text."""


class TextGenerationRecipe(GenerationRecipe):
    """A causal language model on CPUs: completes texts, token by token."""

    kind: Literal["text-generation"]
    max_length: Annotated[int, Field(ge=64, le=131_072)] | None = None
    """Most tokens of a prompt with its completion. Default: the model's positions, but at most 2,048."""


class TextToTextRecipe(GenerationRecipe):
    """An encoder-decoder model on CPUs: turns texts into others, for example translations or summaries."""

    kind: Literal["text-to-text"]
    max_length: Annotated[int, Field(ge=64, le=131_072)] | None = None
    """Most tokens of an input. Default: what the tokenizer and the model's positions allow, but at most
    2,048."""


class EnsembleStep(Record):
    """One model of an ensemble, and its tensor mapping."""

    model: Name
    """A model of this repository."""
    inputs: Mapping[str, str] = Field(default_factory=dict)
    """Step inputs to ensemble tensors; unlisted names stay the same."""
    outputs: Mapping[str, str] = Field(default_factory=dict)
    """Step outputs to ensemble tensors; unlisted names stay the same."""


class EnsembleRecipe(RecipeOptions):
    """An ensemble of other models of this repository."""

    layout: ClassVar[Layout] = "ensemble"

    kind: Literal["ensemble"]
    steps: Annotated[tuple[EnsembleStep, ...], Field(min_length=2)]
    """Steps in order; tensors that no step produces are inputs."""
    outputs: tuple[str, ...] = ()
    """Tensors returned to callers; default: those that no later step uses."""

    @property
    def members(self) -> tuple[str, ...]:
        """The models of its steps, without duplicates."""
        return tuple(dict.fromkeys(step.model for step in self.steps))

    @model_validator(mode="after")
    def _each_tensor_once(self) -> EnsembleRecipe:
        producers: dict[str, int] = {}
        raise_violations(
            CompositionError.at(
                ("steps", index, "outputs"),
                f"step {producers[tensor] + 1} already produces the tensor {tensor!r}",
                "rename one of the two",
            )
            for index, step in enumerate(self.steps)
            for tensor in step.outputs.values()
            if producers.setdefault(tensor, index) != index
        )
        return self


Recipe = Annotated[
    TextEmbeddingRecipe
    | TextClassificationRecipe
    | TextPairClassificationRecipe
    | TokenClassificationRecipe
    | QuestionAnsweringRecipe
    | FeatureExtractionRecipe
    | ImageClassificationRecipe
    | ImageEmbeddingRecipe
    | TorchScriptRecipe
    | OnnxRecipe
    | TreesRecipe
    | ScikitLearnRecipe
    | PythonRecipe
    | VllmRecipe
    | TritonRecipe
    | TextGenerationRecipe
    | TextToTextRecipe
    | EnsembleRecipe,
    Field(discriminator="kind"),
]
