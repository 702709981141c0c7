"""A tokenizer or an image decoder in front of a graph that someone exported.

Test inputs are texts or images. The framework's tokenizer or image processor turns them into rows of the
graph's inputs, with which the graph is checked. The ensemble is checked with the texts or images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from model_build.checking.parity import Answer
from model_build.data import Array, BuildContext, Case, ServableGraph, fits_shape
from model_build.inputs.image_files import read_images, require_images
from model_build.inputs.rows import Row, read_outputs
from model_build.layouts.layout import (
    ENCODER,
    IMAGE,
    MASK,
    PREPARER,
    TEXT,
    TOKENIZER,
    add_entry,
    add_preparer,
    add_tokenizer,
    odd_images,
    reserved_name,
    same_names,
    unbatched,
)
from model_build.repository.parts import SchedulingStep
from model_build.sources.base import read_settings_file
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.base.errors import InvalidFilesError, reject
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import LONGEST_TEXT, GraphRecipe
from tritonstack.files.records.manifests import EnvironmentReport, TensorSpec

if TYPE_CHECKING:
    from model_build.exporters.images import ImageProcessor
    from model_build.exporters.tokenizers import TextTokenizer

USUAL_LENGTH = 256


class Preparation(ABC):
    """What turns the test inputs of a model into the inputs of its graph."""

    callers_send: ClassVar[TensorSpec]
    part: ClassVar[str]
    """Name of the Triton model in front of the graph."""
    tools: ClassVar[tuple[str, ...]]
    """Distributions whose versions decide the artifact's bytes."""

    def __init__(self, model: Document[ModelSpec], recipe: GraphRecipe) -> None:
        self._model = model
        self._spec = model.record
        self._recipe = recipe
        needs = f"a {self.part} in front of a graph needs a batch dimension"
        remedy = "set 1 or more, and export the graph with a variable batch dimension"
        reject([*reserved_name(model, (self.part, ENCODER)), *unbatched(model, needs, remedy)])

    @abstractmethod
    def load(self, source: Path) -> str:
        """Load the tokenizer or the image processor from the source; describe it in a few words."""

    @abstractmethod
    def arrays(self, sent: Sequence[Any]) -> dict[str, Array]:
        """Return the graph's inputs for texts or images, one row each."""

    @abstractmethod
    def sent(self) -> list[Any]:
        """Return the texts or images of the test inputs."""

    @abstractmethod
    def more(self) -> Iterator[tuple[str, Any]]:
        """Yield unusual texts or images, with their names."""

    @abstractmethod
    def fit(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Return the graph's inputs as they will be filled; raise InvalidFilesError if it takes others."""

    @abstractmethod
    def unsized(self, name: str) -> TensorSpec:
        """Return an input of a module that declares names only."""

    @abstractmethod
    def add_step(
        self, repository: Path, graph: ServableGraph, context: BuildContext
    ) -> tuple[EnvironmentReport, SchedulingStep, dict[str, str]]:
        """Write the model in front; return its step, and the connections of the graph's inputs."""

    def rows(self, outputs: Sequence[TensorSpec] | None = None) -> list[Row]:
        """Return the test inputs as rows of the graph."""
        rows = []
        for index, sent in enumerate(self.sent()):
            arrays = {name: array[0] for name, array in self.arrays([sent]).items()}
            right = read_outputs(self._model, index, outputs)
            rows.append(Row(f"test input {index + 1}", ("test_inputs", index), arrays, right))
        return rows

    def requests(self, cases: Sequence[Case], answer: Answer) -> list[Case]:
        """Return the requests that check the ensemble: the cases of the rows first, as callers send them."""
        sent = self.sent()
        requests = [
            Case(case.name, self._requested([item]), case.expected, case.typical, case.origin)
            for item, case in zip(sent, cases, strict=True)
        ]
        together = sent[: self._spec.batching.max_batch]
        more = [(name, [item]) for name, item in self.more()]
        if len(together) > 1:
            more.append(("test inputs in one request", together))
        for name, several in more:
            expected = dict(answer(self.arrays(several)))
            requests.append(
                Case(name, self._requested(several), expected, typical=False, origin=cases[0].origin)
            )
        return requests

    def write(
        self,
        repository: Path,
        graph: ServableGraph,
        outputs: Sequence[TensorSpec],
        context: BuildContext,
    ) -> EnvironmentReport:
        """Write the ensemble and the model in front; the graph is written by its recipe."""
        environment, step, connections = self.add_step(repository, graph, context)
        steps = [step, SchedulingStep(ENCODER, connections, same_names(graph.outputs))]
        add_entry(repository, self._spec, inputs=(self.callers_send,), outputs=outputs, steps=steps)
        return environment

    def _requested(self, sent: Sequence[Any]) -> dict[str, Array]:
        return {self.callers_send.name: np.array([[item] for item in sent], dtype=np.object_)}

    def _folder(self, source: Path) -> Path:
        return source / (self._recipe.processor or ".")

    def _mismatch(self, message: str, remedy: str) -> InvalidFilesError:
        return InvalidFilesError(
            [self._model.violation(ModelMismatchError, ("recipe", "input"), message, remedy)]
        )


class Texts(Preparation):
    """A tokenizer in front of a graph."""

    callers_send = TEXT
    part = TOKENIZER
    tools = ("tokenizers", "transformers")
    _tokenizer: TextTokenizer
    _names: tuple[str, ...] = ()

    def load(self, source: Path) -> str:
        """Load the tokenizer."""
        # transformers takes seconds to import, and a reused artifact does not need it.
        from model_build.exporters.loading import load_tokenizer, quiet  # noqa: PLC0415
        from model_build.exporters.tokenizers import TextTokenizer  # noqa: PLC0415

        folder = self._folder(source)
        with quiet():
            library = load_tokenizer(folder, trust=self._spec.trust)
        length = self._recipe.max_length or _stated_length(folder) or USUAL_LENGTH
        self._tokenizer = TextTokenizer(library, max_length=length)
        return f"up to {length} tokens"

    def unsized(self, name: str) -> TensorSpec:
        """Return an input for tokens."""
        return TensorSpec(name=name, datatype="INT64", shape=(-1,))

    def fit(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Check that the graph takes tokens of any number."""
        from model_build.exporters.tokenizers import TOKENS  # noqa: PLC0415 - as above

        names = [tensor.name for tensor in inputs]
        if TOKENS[0] not in names or not set(names) <= set(TOKENS):
            raise self._mismatch(
                f"the graph takes {', '.join(names)}; a tokenizer returns {', '.join(TOKENS)}",
                "export the graph with these names, or use `input: tensors`",
            )
        for tensor in inputs:
            if tensor.datatype not in ("INT64", "INT32") or tensor.shape != (-1,):
                raise self._mismatch(
                    f"the graph's {tensor.name} is {tensor.datatype} {list(tensor.shape)}; expected INT64 or "
                    "INT32 [-1], one value per token",
                    "export the graph with a variable sequence dimension",
                )
        self._names = tuple(names)
        self._types = {tensor.name: np.int32 for tensor in inputs if tensor.datatype == "INT32"}
        return tuple(inputs)

    def arrays(self, sent: Sequence[Any]) -> dict[str, Array]:
        """Return the tokens of texts."""
        tokens = self._tokenizer.tokenize(sent, self._names)
        return {name: array.astype(self._types.get(name, array.dtype)) for name, array in tokens.items()}

    def sent(self) -> list[Any]:
        """Return the texts of the test inputs."""
        return [test_input.text for test_input in self._spec.test_inputs]

    def more(self) -> Iterator[tuple[str, Any]]:
        """Yield an empty text, and one to truncate."""
        if self._tokenizer.answers_empty_text:
            yield "an empty text", ""
        yield "a text to cut", " ".join(self.sent() * (self._tokenizer.max_length // 4 + 1))

    def add_step(
        self, repository: Path, graph: ServableGraph, context: BuildContext
    ) -> tuple[EnvironmentReport, SchedulingStep, dict[str, str]]:
        """Write the tokenizer."""
        # Without a mask, padding changes answers; with one row per token, callers would see it.
        has_mask = MASK.name in self._names
        pads = has_mask and not any(-1 in tensor.shape for tensor in graph.outputs)
        environment = add_tokenizer(
            repository,
            tokenizer=self._tokenizer.served(),
            callers_send=(TEXT,),
            outputs=graph.inputs,
            padding="together" if pads else None,
            batching=self._spec.batching,
            cache_dir=context.cache_dir,
        )
        tokens = same_names(graph.inputs)
        return environment, SchedulingStep(TOKENIZER, same_names((TEXT,)), tokens), tokens


class Images(Preparation):
    """An image decoder in front of a graph."""

    callers_send = IMAGE
    part = PREPARER
    tools = ("pillow", "transformers")
    _processor: ImageProcessor
    _name: str = ""

    def load(self, source: Path) -> str:
        """Load the image processor."""
        require_images(self._model)
        from model_build.exporters.images import ImageProcessor  # noqa: PLC0415 - imports slowly
        from model_build.exporters.loading import quiet  # noqa: PLC0415 - as above

        with quiet():
            self._processor = ImageProcessor(self._folder(source), trust=self._spec.trust)
            self._preparation = self._processor.preparation()
        return f"images of {'x'.join(map(str, self._processor.shape()))}"

    def unsized(self, name: str) -> TensorSpec:
        """Return an input for pixels."""
        return TensorSpec(name=name, datatype="FP32", shape=(-1, -1, -1))

    def fit(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Check that the graph takes the processor's pixels; they have one size."""
        shape = self._processor.shape()
        fits = len(inputs) == 1 and inputs[0].datatype == "FP32"
        if not fits or not fits_shape(shape, inputs[0].shape):
            taken = ", ".join(f"{tensor.name} {tensor.datatype} {list(tensor.shape)}" for tensor in inputs)
            raise self._mismatch(
                f"the graph takes {taken}; the image processor returns one FP32 {list(shape)}",
                "correct preprocessor_config.json, or use `input: tensors`",
            )
        self._name = inputs[0].name
        return (inputs[0].model_copy(update={"shape": shape}),)

    def arrays(self, sent: Sequence[Any]) -> dict[str, Array]:
        """Return the pixels of images."""
        return {self._name: self._processor.pixels(sent)}

    def sent(self) -> list[Any]:
        """Return the image files of the test inputs."""
        return list(read_images(self._model))

    def more(self) -> Iterator[tuple[str, Any]]:
        """Yield images of odd sizes."""
        from model_build.exporters.images import encoded  # noqa: PLC0415 - imports slowly

        yield from ((name, encoded(pixels)) for name, pixels in odd_images())

    def add_step(
        self, repository: Path, graph: ServableGraph, context: BuildContext
    ) -> tuple[EnvironmentReport, SchedulingStep, dict[str, str]]:
        """Write the decoder."""
        pixels = graph.inputs[0].model_copy(update={"name": "pixel_values"})
        environment = add_preparer(
            repository,
            preparation=self._preparation,
            outputs=(pixels,),
            batching=self._spec.batching,
            cache_dir=context.cache_dir,
        )
        step = SchedulingStep(PREPARER, same_names((IMAGE,)), same_names((pixels,)))
        return environment, step, {self._name: pixels.name}


def preparation_for(model: Document[ModelSpec], recipe: GraphRecipe) -> Preparation | None:
    """Return what is in front of a model's graph; None if callers send its tensors."""
    kinds: dict[str, type[Preparation]] = {"text": Texts, "image": Images}
    return kinds[recipe.input](model, recipe) if recipe.input in kinds else None


def _stated_length(folder: Path) -> int | None:
    """Return the maximum length of tokenizer_config.json, if a recipe allows it."""
    length = read_settings_file(folder, "tokenizer_config.json").get("model_max_length")
    return length if isinstance(length, int) and 1 < length <= LONGEST_TEXT else None
