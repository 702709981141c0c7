"""Repository layouts of a text model.

`input: texts`: an ensemble of a tokenizer and the graph, or both in one model. Text pairs: the same with two
inputs. Questions: the same for text pairs, plus a step that finds the best answer. `input: tokens`: the graph
alone, under the model's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from model_build.data import Array, BuildContext, Case, ServableGraph, rows_of
from model_build.layouts.layout import (
    DEFAULT_LAYOUT,
    ENCODER,
    MASK,
    SERVED,
    TEXT,
    TOKENIZER,
    Layout,
    Padding,
    add_entry,
    add_tokenizer,
    pack_environment,
    random_numbers,
    same_names,
    text_model_packages,
)
from model_build.repository.parts import (
    ModelProperties,
    SchedulingStep,
    add_python_model,
)
from tritonstack.base.error_kinds import InvalidValueError
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.files import folder_bytes
from tritonstack.base.source_files import copy_from
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import QuestionAnsweringRecipe, TextPairClassificationRecipe, TextRecipe
from tritonstack.files.model.triton_options import Optimization
from tritonstack.files.records.manifests import EnvironmentReport, TensorSpec

if TYPE_CHECKING:
    from model_build.exporters.texts import TextFramework
    from model_build.exporters.tokenizers import Sample

TEXT_MODEL_CODE = SERVED / "text_model.py"
TEXT_PAIR_MODEL_CODE = SERVED / "text_pair_model.py"
SIZED_TEXT_MODEL_CODE = SERVED / "sized_text_model.py"
BATCH_TOKENS = "batch_tokens"
"""Parameter of a text model whose model.yaml sets the size of small batches."""
ANSWER_CODE = SERVED / "answer_span.py"
ANSWER = "answer"

TEXT_PAIR = TensorSpec(name="TEXT_PAIR", datatype="BYTES", shape=(1,))
QUESTION = TensorSpec(name="QUESTION", datatype="BYTES", shape=(1,))
CONTEXT = TensorSpec(name="CONTEXT", datatype="BYTES", shape=(1,))
OFFSETS = TensorSpec(name="offsets", datatype="INT64", shape=(-1, 2))
GROUPS_FROM_BYTES = 20_000_000
"""From this size on, a graph on a CPU takes longer for padding than the tokenizer for responses one by one
(0.2 ms each)."""
TOKEN_INPUTS = {tensor.name: tensor for tensor in (OFFSETS, MASK)}
ANSWERS = (
    TensorSpec(name="answer", datatype="BYTES", shape=(1,)),
    TensorSpec(name="score", datatype="FP32", shape=(1,)),
    TensorSpec(name="start", datatype="INT64", shape=(1,)),
    TensorSpec(name="end", datatype="INT64", shape=(1,)),
)


def text_layout(model: Document[ModelSpec], recipe: TextRecipe) -> Layout[TextFramework]:
    """Return the layout for a model's `input`."""
    if recipe.input == "tokens":
        return TokensIn(model, recipe)
    match recipe:
        case QuestionAnsweringRecipe():
            return QuestionsIn(model, recipe)
        case TextPairClassificationRecipe():
            return PairsIn(model, recipe)
        case _:
            return TextsIn(model, recipe)


class TextLayout(Layout["TextFramework"]):
    """Base class of text layouts."""

    tools = ("tokenizers",)

    def __init__(self, model: Document[ModelSpec], recipe: TextRecipe) -> None:
        super().__init__(model)
        self._recipe = recipe

    def load(self, context: BuildContext) -> TextFramework:
        """Load the model and its tokenizer."""
        # torch takes seconds to import, and a reused artifact does not need it.
        from model_build.exporters.texts import TextFramework  # noqa: PLC0415

        return TextFramework(context.files(self._recipe))

    def example(self, framework: TextFramework) -> Mapping[str, Array]:
        """Return the tokens of the first test input."""
        return framework.tokenize(self._samples[:1])

    def graph_cases(self, framework: TextFramework) -> Iterator[Case]:
        """Return random tokens of several shapes, and the test inputs."""
        random, max_batch = random_numbers(), self._spec.batching.max_batch
        for batch, length in shapes_to_compare(max_batch, framework.max_length):
            tokens = framework.random_tokens(random, batch=batch, length=length)
            name = f"random tokens {batch}x{length}"
            yield Case(name, tokens, framework.answer(tokens), typical=False)
        samples = self._samples
        for begin in range(0, len(samples), max_batch):
            yield _tokens_case("test inputs", framework, samples[begin : begin + max_batch])

    @property
    def _samples(self) -> list[Sample]:
        """Return the test inputs in the tokenizer's form."""
        texts = [test_input.texts for test_input in self._spec.test_inputs]
        return [(sample[0], sample[1]) if len(sample) > 1 else sample[0] for sample in texts]

    def _named_samples(self, framework: TextFramework) -> Iterator[tuple[str, Sample, bool]]:
        """Yield each test input, the shortest text, and one to truncate, with whether each is typical."""
        samples = self._samples
        for number, sample in enumerate(samples, start=1):
            yield f"test input {number}", sample, True
        if framework.answers_empty_text:
            yield "an empty text", _with_text(samples[0], ""), False
        texts = [sample if isinstance(sample, str) else sample[1] for sample in samples]
        yield (
            "a text to cut",
            _with_text(samples[0], " ".join(texts * (framework.max_length // 4 + 1))),
            False,
        )


class TokensIn(TextLayout):
    """The graph alone, which needs no Python."""

    def cases(self, framework: TextFramework) -> Iterator[Case]:
        """Return the tokens of each text alone, and of all test inputs padded to one length."""
        for name, sample, typical in self._named_samples(framework):
            yield _tokens_case(name, framework, [sample], typical=typical)
        yield from rows_of(_tokens_case("test inputs, padded", framework, self._samples, typical=False))


class TextsIn(TextLayout):
    """An ensemble: the tokenizer in Python, then the graph; or both in one Python model."""

    parts: ClassVar[tuple[str, ...]] = (TOKENIZER, ENCODER)
    callers_send: ClassVar[tuple[TensorSpec, ...]] = (TEXT,)
    one_model_code: ClassVar[tuple[Path, ...]] = (TEXT_MODEL_CODE,)
    """Code of the model that runs both the tokenizer and the graph, and modules that it imports."""

    def inputs(self, graph: ServableGraph) -> tuple[TensorSpec, ...]:
        """Return the text inputs, whatever the graph takes."""
        del graph
        return self.callers_send

    def outputs(self, graph: ServableGraph, framework: TextFramework) -> tuple[TensorSpec, ...]:
        """Return the graph's outputs and the token tensors."""
        return (*graph.outputs, *_caller_tensors(graph, framework))

    def write(
        self, repository: Path, graph: ServableGraph, framework: TextFramework, context: BuildContext
    ) -> tuple[EnvironmentReport, ...]:
        """Write one folder per part."""
        outputs = self.outputs(graph, framework)
        if self._in_one_model(graph, framework, context):
            steps = [SchedulingStep(ENCODER, same_names(self.callers_send), same_names(graph.outputs))]
            environment = self._add_text_model(repository, graph, framework, context)
        else:
            steps = self._steps(graph, framework)
            environment = self._add_tokenizer(repository, graph, framework, context)
            self._add_graph(repository, ENCODER, graph, framework, context)
        add_entry(repository, self._spec, inputs=self.callers_send, outputs=outputs, steps=steps)
        return (environment,)

    def cases(self, framework: TextFramework) -> Iterator[Case]:
        """Return each text alone, and texts of different lengths in one request."""
        for name, sample, typical in self._named_samples(framework):
            yield self._case(name, framework, [sample], typical=typical)
        batch = self._samples[: self._spec.batching.max_batch]
        if len(batch) > 1:
            yield self._case("test inputs in one request", framework, batch, typical=False)

    def _case(self, name: str, framework: TextFramework, samples: Sequence[Sample], *, typical: bool) -> Case:
        extra = framework.token_tensors
        tokens = framework.tokenize(samples, extra=extra)
        expected = framework.answer({name: tokens[name] for name in framework.inputs})
        arrays = expected | {name: tokens[name] for name in extra}
        return Case(name, self._requested(samples), arrays, typical=typical)

    def _requested(self, samples: Sequence[Sample]) -> dict[str, Array]:
        """Return samples as callers send them, one row each."""
        columns = [samples] if len(self.callers_send) == 1 else zip(*samples, strict=True)
        return {
            tensor.name: np.array([[text] for text in column], dtype=np.object_)
            for tensor, column in zip(self.callers_send, columns, strict=True)
        }

    def _steps(self, graph: ServableGraph, framework: TextFramework) -> list[SchedulingStep]:
        tokens = same_names(self._tokenizer_outputs(graph, framework))
        return [
            SchedulingStep(TOKENIZER, same_names(self.callers_send), tokens),
            SchedulingStep(ENCODER, same_names(graph.inputs), same_names(graph.outputs)),
        ]

    def _tokenizer_outputs(self, graph: ServableGraph, framework: TextFramework) -> tuple[TensorSpec, ...]:
        return tuple(dict.fromkeys((*graph.inputs, *_caller_tensors(graph, framework))))

    def alternatives(
        self, graph: ServableGraph, framework: TextFramework, context: BuildContext
    ) -> Mapping[str, TextsIn]:
        """Return both layouts if both are possible and model.yaml names neither."""
        is_open = self._spec.precision == "auto" and self._recipe.one_model is None
        if not is_open or any(self._obstacles(graph, framework, context)):
            return {}
        return {
            name: type(self)(self._model, self._recipe.model_copy(update={"one_model": one_model}))
            for name, one_model in ((DEFAULT_LAYOUT, True), ("two models", False))
        }

    def _in_one_model(self, graph: ServableGraph, framework: TextFramework, context: BuildContext) -> bool:
        """Return whether one Python model runs the tokenizer and the graph."""
        choice = self._recipe.one_model
        obstacles = list(self._obstacles(graph, framework, context))
        if choice and obstacles:
            raise InvalidFilesError(
                self._model.violation(
                    InvalidValueError,
                    ("recipe", "one_model"),
                    f"the tokenizer and the graph cannot run in one model: {obstacle}",
                    "remove `one_model`",
                )
                for obstacle in obstacles
            )
        in_one = not obstacles if choice is None else choice
        if self._recipe.batch_tokens is not None and not in_one:
            reason = obstacles[0] if obstacles else "`one_model: false` makes two models"
            raise self._model.invalid(
                InvalidValueError,
                ("recipe", "batch_tokens"),
                f"only a tokenizer and a graph in one model run small batches: {reason}",
                "remove `batch_tokens`",
            )
        return in_one

    def _obstacles(
        self, graph: ServableGraph, framework: TextFramework, context: BuildContext
    ) -> Iterator[str]:
        """Yield why the tokenizer and the graph cannot run in one Python model."""
        triton = self._spec.triton
        if graph.backend != "onnxruntime" or context.target.has_gpu:
            yield f"the graph runs in Triton's {graph.backend} backend on {context.target.hardware}"
        if framework.token_tensors or any(-1 in tensor.shape for tensor in graph.outputs):
            yield "its outputs have one row per token"
        if triton.config or triton.parameters or triton.optimization != Optimization():
            yield "`triton` has settings for Triton's ONNX Runtime backend"

    def _add_text_model(
        self, repository: Path, graph: ServableGraph, framework: TextFramework, context: BuildContext
    ) -> EnvironmentReport:
        code, *modules = self.one_model_code
        parameters = {}
        if self._recipe.batch_tokens is not None:
            code, modules = SIZED_TEXT_MODEL_CODE, list(self.one_model_code)
            parameters[BATCH_TOKENS] = str(self._recipe.batch_tokens)
        version = add_python_model(
            repository,
            name=ENCODER,
            code=code,
            inputs=self.callers_send,
            outputs=graph.outputs,
            batching=self._spec.batching,
            triton=self._spec.triton,
            target=context.target,
            properties=ModelProperties(
                model=self._model,
                graph=graph.folder,
                example=self._requested(self._samples[:1]),
                parameters=parameters,
            ),
        )
        for module in modules:
            copy_from(module.parent, module.name, version / module.name)
        (version / "tokenizer.json").write_text(framework.served_tokenizer(), encoding="utf-8")
        return pack_environment(text_model_packages(), repository, ENCODER, context.cache_dir)

    def _add_tokenizer(
        self, repository: Path, graph: ServableGraph, framework: TextFramework, context: BuildContext
    ) -> EnvironmentReport:
        return add_tokenizer(
            repository,
            tokenizer=framework.served_tokenizer(),
            callers_send=self.callers_send,
            outputs=self._tokenizer_outputs(graph, framework),
            # With token outputs, each request is padded by itself.
            padding=None if framework.token_tensors else self._padding(graph, context),
            batching=self._spec.batching,
            cache_dir=context.cache_dir,
        )

    def _padding(self, graph: ServableGraph, context: BuildContext) -> Padding:
        """Return which texts the tokenizer pads to one length."""
        # With keep_order, Triton holds responses until those before them are sent, which splits groups.
        pays = not context.target.has_gpu and not self._spec.batching.keep_order
        return "groups" if pays and folder_bytes(graph.folder) >= GROUPS_FROM_BYTES else "together"


class PairsIn(TextsIn):
    """The same for pairs of texts."""

    callers_send = (TEXT, TEXT_PAIR)
    one_model_code = (TEXT_PAIR_MODEL_CODE, TEXT_MODEL_CODE)


class QuestionsIn(TextsIn):
    """An ensemble with a last step that finds the answer in the graph's outputs."""

    parts = (TOKENIZER, ENCODER, ANSWER)
    callers_send = (QUESTION, CONTEXT)
    _recipe: QuestionAnsweringRecipe

    def outputs(self, graph: ServableGraph, framework: TextFramework) -> tuple[TensorSpec, ...]:
        """Return the answer tensors, and its position in the context."""
        del graph, framework
        return ANSWERS

    def write(
        self, repository: Path, graph: ServableGraph, framework: TextFramework, context: BuildContext
    ) -> tuple[EnvironmentReport, ...]:
        """Write the same parts, plus the answer search."""
        version = add_python_model(
            repository,
            name=ANSWER,
            code=ANSWER_CODE,
            inputs=(*graph.outputs, OFFSETS, CONTEXT),
            outputs=ANSWERS,
            batching=self._spec.batching,
            properties=ModelProperties(environment=False),
        )
        options = {"max_answer_tokens": self._recipe.max_answer_tokens}
        (version / "answer.json").write_text(json.dumps(options) + "\n")
        return super().write(repository, graph, framework, context)

    def _steps(self, graph: ServableGraph, framework: TextFramework) -> list[SchedulingStep]:
        reserved = same_names((*graph.outputs, OFFSETS, CONTEXT))
        return [*super()._steps(graph, framework), SchedulingStep(ANSWER, reserved, same_names(ANSWERS))]

    def _tokenizer_outputs(self, graph: ServableGraph, framework: TextFramework) -> tuple[TensorSpec, ...]:
        return (*graph.inputs, OFFSETS)

    def _case(self, name: str, framework: TextFramework, samples: Sequence[Sample], *, typical: bool) -> Case:
        answers = framework.best_answers(samples, max_answer_tokens=self._recipe.max_answer_tokens)
        return Case(name, self._requested(samples), answers, typical=typical)


def shapes_to_compare(max_batch: int, max_length: int) -> list[tuple[int, int]]:
    """Return batch sizes and lengths: the bounds, and odd values between them."""
    shapes = [(1, 1), (1, 2), (2, 1), (3, 17), (1, max_length - 1), (2, max_length), (max_batch, 13)]
    return sorted({(min(batch, max_batch), min(length, max_length)) for batch, length in shapes})


def _tokens_case(
    name: str, framework: TextFramework, samples: Sequence[Sample], *, typical: bool = True
) -> Case:
    tokens = framework.tokenize(samples)
    return Case(name, tokens, framework.answer(tokens), typical=typical)


def _caller_tensors(graph: ServableGraph, framework: TextFramework) -> list[TensorSpec]:
    """Return token tensors for callers; the graph may use another type."""
    specs = TOKEN_INPUTS | {tensor.name: tensor for tensor in graph.inputs}
    return [specs[name] for name in framework.token_tensors]


def _with_text(sample: Sample, text: str) -> Sample:
    """Return another text; for a pair, another second text."""
    return text if isinstance(sample, str) else (sample[0], text)
