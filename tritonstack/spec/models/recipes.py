"""The recipes of `model.yaml`: how a source becomes a Triton repository. One record a kind.

Hugging Face   text-embedding, text-classification, token-classification, question-answering,
               feature-extraction, image-classification
as given       torchscript, onnx, trees, python, vllm
composed       ensemble
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import Fault, Record, refuse
from tritonstack.base.naming import Name

Layout = Literal["single", "ensemble"]
InputKind = Literal["texts", "questions", "images", "tensors"]
Format = Literal["onnx", "torchscript", "tensorrt"]
LONGEST_TEXT = 8192
TokenCount = Annotated[int, Field(ge=2, le=LONGEST_TEXT)]
PoolingMode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
"""How the vectors of tokens become one vector, as sentence-transformers names it."""
Overridable = Literal["pooling", "normalize", "max_length", "prompt"]
"""Settings of a sentence-transformers model that a recipe may contradict for a reason."""


def _check_own_file(text: str) -> str:
    parts = text.split("/")
    if text.startswith("/") or ".." in parts or not re.fullmatch(r"[A-Za-z0-9._/-]+", text):
        raise ValueError(
            f"{text!r} is not a file beside model.yaml; name one below its folder, "
            "of letters, digits, '.', '_', '-' and '/'"
        )
    return text


OwnFile = Annotated[str, AfterValidator(_check_own_file)]
"""A file that belongs to the model's folder in this repository; what it holds is part of the model's hash."""


def _check_entry(text: str) -> str:
    file, _, function = text.partition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise ValueError(f"{text!r} is not an entry point; write <file>.py:<function>")
    _check_own_file(file)
    return text


EntryPoint = Annotated[str, AfterValidator(_check_entry)]
"""`file.py:function` in the model's folder."""


class HuggingFaceRecipe(Record):
    """What recipes for models that transformers loads have in common."""

    format: Format = "onnx"
    """What Triton runs: the ONNX graph, a TorchScript module, or an engine that TensorRT makes."""


class TextRecipe(HuggingFaceRecipe):
    """What recipes for text models have in common."""

    takes: ClassVar[InputKind] = "texts"

    input: Literal["text", "tokens"] = "text"
    """What callers send: texts, which a tokenizer beside the model splits, or ids of tokens and a mask."""
    max_length: TokenCount | None = None
    """Longer texts are cut to this many tokens. Default: 256; text-embedding takes it from the source."""

    @property
    def usual_length(self) -> int:
        """The longest text where neither the recipe nor the source states one."""
        return 256

    @property
    def layout(self) -> Layout:
        """How many Triton models the artifact holds: one, or a pipeline of several."""
        return "single" if self.input == "tokens" else "ensemble"

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        return ()


class TextEmbeddingRecipe(TextRecipe):
    """A text encoder whose tokens are pooled into one vector a text."""

    kind: Literal["text-embedding"]
    pooling: PoolingMode | Annotated[tuple[PoolingMode, ...], Field(min_length=1)] | None = None
    """How token vectors become one vector; several are joined. Default: what the source states, or mean."""
    normalize: bool | None = None
    """Scale each vector to length 1, so that a dot product is the cosine. Default: as the source, or true."""
    overrides: Mapping[Overridable, Annotated[str, Field(min_length=10)]] = Field(default_factory=dict)
    """Settings that differ from those of a sentence-transformers source, each with the reason."""

    @property
    def modes(self) -> tuple[PoolingMode, ...] | None:
        """The pooling as a list; None if it is left to the source."""
        return (self.pooling,) if isinstance(self.pooling, str) else self.pooling


class TextClassificationRecipe(TextRecipe):
    """A text model that gives each text a score for every label."""

    kind: Literal["text-classification"]
    activation: Literal["softmax", "sigmoid", "none"] | None = None
    """What turns the model's numbers into scores; by default what the model says of itself."""


class TokenClassificationRecipe(TextRecipe):
    """A text model that gives every token a score for every label."""

    kind: Literal["token-classification"]


class QuestionAnsweringRecipe(TextRecipe):
    """A text model that finds the answer to a question in a context."""

    takes: ClassVar[InputKind] = "questions"

    kind: Literal["question-answering"]
    max_length: TokenCount | None = None
    """Question and context together; a longer context is cut. Default: 384."""
    max_answer_tokens: Annotated[int, Field(ge=1, le=512)] = 15
    """Longer answers are not considered."""

    @property
    def usual_length(self) -> int:
        """The same for a question with its context."""
        return 384


class FeatureExtractionRecipe(TextRecipe):
    """A text model whose vector of every token is the answer."""

    kind: Literal["feature-extraction"]


class ImageClassificationRecipe(HuggingFaceRecipe):
    """An image model that gives each image a score for every label."""

    takes: ClassVar[InputKind] = "images"

    kind: Literal["image-classification"]
    input: Literal["image", "pixels"] = "image"
    """What callers send: image files, which a step beside the model decodes and scales, or scaled pixels."""
    activation: Literal["softmax", "sigmoid", "none"] | None = None
    """What turns the model's numbers into scores; by default what the model says of itself."""

    @property
    def layout(self) -> Layout:
        """How many Triton models the artifact holds."""
        return "single" if self.input == "pixels" else "ensemble"

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        return ()


class GivenRecipe(Record):
    """What recipes for models that are given as one file or one program have in common."""

    takes: ClassVar[InputKind] = "tensors"
    layout: ClassVar[Layout] = "single"

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        return ()


class TorchScriptRecipe(GivenRecipe):
    """A PyTorch module as TorchScript: a file as it is, or traced from a function that makes the module."""

    kind: Literal["torchscript"]
    file: OwnFile | None = None
    """A module that torch.jit has saved, in the source."""
    entry: EntryPoint | None = None
    """`file.py:function` beside model.yaml; gets the source's folder and returns the module to trace."""

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        return (self.entry.partition(":")[0],) if self.entry else ()

    @model_validator(mode="after")
    def _one_way(self) -> TorchScriptRecipe:
        if (self.file is None) == (self.entry is None):
            raise ValueError(
                "one of `file` and `entry` has to be given; name the saved module or the function"
            )
        return self


class OnnxRecipe(GivenRecipe):
    """An ONNX graph as it is."""

    kind: Literal["onnx"]
    file: OwnFile = "model.onnx"
    """The graph in the source."""
    format: Literal["onnx", "tensorrt"] = "onnx"
    """What Triton runs: the graph, or an engine that TensorRT makes of it."""


class TreesRecipe(GivenRecipe):
    """Trees of XGBoost, LightGBM or scikit-learn, for Triton's FIL backend."""

    kind: Literal["trees"]
    file: OwnFile
    """The saved model in the source."""
    library: Literal["xgboost", "lightgbm", "scikit-learn", "treelite"] | None = None
    """What saved it; by default what the file itself shows."""
    answer: Literal["value", "class", "probabilities"] | None = None
    """What callers get; by default probabilities of a classifier and values of anything else."""

    @property
    def is_lightgbm(self) -> bool:
        """Whether the file is LightGBM's text, as far as its name or this record says."""
        return self.library == "lightgbm" or (self.library is None and self.file.endswith(".txt"))


class PythonRecipe(GivenRecipe):
    """A model of your own for Triton's Python backend."""

    kind: Literal["python"]
    code: OwnFile = "model.py"
    """The file with class TritonPythonModel, beside model.yaml."""
    requirements: OwnFile | None = None
    """Packages it imports beyond NumPy, in pip's form, each at an exact version."""
    environment: OwnFile | None = None
    """Instead of requirements: an archive that conda-pack has made."""
    pythons: tuple[Annotated[str, Field(pattern=r"^3\.\d+$")], ...] = ()
    """The Pythons that compiled packages are brought for; by default those of every Triton release."""
    reference: EntryPoint | None = None
    """`file.py:function` from named arrays to the right answers; or write these beside the inputs."""

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        reference = self.reference.partition(":")[0] if self.reference else None
        return tuple(
            file for file in (self.code, self.requirements, self.environment, reference) if file is not None
        )

    @model_validator(mode="after")
    def _one_environment(self) -> PythonRecipe:
        if self.requirements and self.environment:
            raise ValueError("`requirements` and `environment` exclude each other; keep one")
        if self.pythons and not self.requirements:
            raise ValueError("`pythons` says what `requirements` are for, and there are none; remove it")
        return self


class VllmRecipe(GivenRecipe):
    """A language model for Triton's vLLM backend."""

    takes: ClassVar[InputKind] = "texts"

    kind: Literal["vllm"]
    engine: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of vLLM's engine, as model.json has them; the model's place is filled in."""


class EnsembleStep(Record):
    """One model of a pipeline, and how its tensors are called there."""

    model: Name
    """A model of this repository."""
    inputs: Mapping[str, str] = Field(default_factory=dict)
    """The step's own inputs to tensors of the pipeline; a name that is not given stays the same."""
    outputs: Mapping[str, str] = Field(default_factory=dict)
    """The step's own outputs to tensors of the pipeline; a name that is not given stays the same."""


class EnsembleRecipe(Record):
    """A pipeline of other models of this repository, each as its own file builds it."""

    takes: ClassVar[InputKind] = "tensors"
    layout: ClassVar[Layout] = "ensemble"

    kind: Literal["ensemble"]
    steps: Annotated[tuple[EnsembleStep, ...], Field(min_length=2)]
    """In the order of the pipeline; what no step makes is an input."""
    outputs: tuple[str, ...] = ()
    """Tensors that callers get; by default those that no later step takes."""

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files of the model's folder that the build reads."""
        return ()

    @property
    def members(self) -> tuple[str, ...]:
        """The models of its steps, each once."""
        return tuple(dict.fromkeys(step.model for step in self.steps))

    @model_validator(mode="after")
    def _each_tensor_once(self) -> EnsembleRecipe:
        made: dict[str, int] = {}
        refuse(
            Fault(
                ("steps", index, "outputs"),
                f"step {made[tensor] + 1} makes the tensor {tensor!r} already",
                "give one of the two another name",
            )
            for index, step in enumerate(self.steps)
            for tensor in step.outputs.values()
            if made.setdefault(tensor, index) != index
        )
        return self


Recipe = Annotated[
    TextEmbeddingRecipe
    | TextClassificationRecipe
    | TokenClassificationRecipe
    | QuestionAnsweringRecipe
    | FeatureExtractionRecipe
    | ImageClassificationRecipe
    | TorchScriptRecipe
    | OnnxRecipe
    | TreesRecipe
    | PythonRecipe
    | VllmRecipe
    | EnsembleRecipe,
    Field(discriminator="kind"),
]
