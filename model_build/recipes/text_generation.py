"""text-generation and text-to-text: models that write texts on CPUs, in decoupled Python with ONNX Runtime.

The graph computes one step with the keys and values of earlier tokens, and of the input if the model has an
encoder. The served loop must choose the tokens that transformers' generate() chooses.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from model_build.checking.generate_check import COMPARED_TOKENS
from model_build.data import BuildContext, Case, ExportedGraph, Recipe, WrittenRepository
from model_build.environments.packing import target_python
from model_build.errors import ExportError, ParityError
from model_build.layouts.layout import SERVED, pack_environment, text_model_packages
from model_build.progress import BuildSteps
from model_build.repository.language import TEXT_IN, TEXT_OUT, add_generator
from model_build.repository.parts import ModelProperties
from tritonstack.facts.targets import Target
from tritonstack.files.model.recipes import GenerationRecipe, TextToTextRecipe
from tritonstack.files.records.manifests import EnvironmentReport

if TYPE_CHECKING:
    from model_build.exporters.generating.framework import GenerationFramework

MODULES = (SERVED / "text_generator.py", SERVED / "generation.py")


@dataclasses.dataclass(frozen=True)
class _Completion:
    """What transformers makes of a test text."""

    text: str
    most: int
    """Most tokens that it may have."""
    tokens: list[int]
    completion: str


class TextGeneration(Recipe[GenerationRecipe]):
    """The recipe for one model."""

    tools = ("torch", "transformers", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "tokenizers")

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Export the graph of one step, compare completions, and write the repository."""
        framework = steps.run("load", lambda: self._load(context), lambda item: item.description)
        completions = steps.run("answer", lambda: self._completions(framework), _count)
        graph = steps.run(
            "export",
            lambda: framework.export(context.folder / "graph"),
            lambda item: f"ONNX, {item.size}",
        )
        steps.run("compare graph", lambda: _compare(framework, graph, completions), _count)
        repository = context.folder / "repository"
        environment = steps.run(
            "repository",
            lambda: self._write(repository, framework, graph, context),
            lambda _: self._spec.name,
        )
        return WrittenRepository(
            folder=repository,
            entry=self._spec.name,
            target=Target(context.target.hardware, target_python(environment, context.target.python)),
            inputs=(TEXT_IN,),
            outputs=(TEXT_OUT,),
            parity=(),
            cases=[
                Case(item.text, {TEXT_IN.name: _texts(item.text)}, {TEXT_OUT.name: _texts(item.completion)})
                for item in completions
            ],
            environments=(environment,),
            max_batch=0,
            unused_weights=framework.unused_weights,
        )

    def _load(self, context: BuildContext) -> GenerationFramework:
        # torch takes seconds to import, and a reused artifact does not need it.
        from model_build.exporters.generating.causal import CausalFramework  # noqa: PLC0415
        from model_build.exporters.generating.encoder_decoder import (  # noqa: PLC0415
            EncoderDecoderFramework,
        )

        is_causal = not isinstance(self._recipe, TextToTextRecipe)
        framework = CausalFramework if is_causal else EncoderDecoderFramework
        return framework(context.files(self._recipe))

    def _completions(self, framework: GenerationFramework) -> list[_Completion]:
        return [_completion(framework, text) for text in self._spec.test_texts]

    def _write(
        self, repository: Path, framework: GenerationFramework, graph: ExportedGraph, context: BuildContext
    ) -> EnvironmentReport:
        options = json.dumps(dataclasses.asdict(framework.options), indent=2) + "\n"
        add_generator(
            repository,
            name=self._spec.name,
            modules=MODULES,
            files={"tokenizer.json": framework.served_tokenizer(), "generation.json": options},
            properties=ModelProperties(model=self._model, graph=graph.file.parent),
        )
        return pack_environment(text_model_packages(), repository, self._spec.name, context.cache_dir)


def _completion(framework: GenerationFramework, text: str) -> _Completion:
    prompt = framework.prompt(text)
    most = min(COMPARED_TOKENS, framework.room_for(prompt))
    tokens = framework.complete(prompt, most)
    completion = framework.text_of(prompt, tokens)
    if not completion:
        raise ExportError(
            f"transformers completes {text!r} with no text, so there is nothing to compare",
            remedy="use texts in test_inputs that the model continues",
        )
    return _Completion(text, most, tokens, completion)


def _compare(
    framework: GenerationFramework, graph: ExportedGraph, completions: Sequence[_Completion]
) -> Sequence[_Completion]:
    """Raise ParityError unless the served loop chooses the same tokens."""
    generator = framework.generator(graph.file)
    for expected in completions:
        chosen = generator.greedy_tokens(expected.text, expected.most)
        for place, (ours, right) in enumerate(zip(chosen, expected.tokens, strict=True)):
            if ours != right:
                raise ParityError(
                    f"the completion of {expected.text!r} differs from transformers' in token {place + 1} of "
                    f"{len(expected.tokens)}: {ours} instead of {right}",
                    remedy="use test texts whose next tokens the model is sure of; if every text differs, "
                    "serve the model with the recipe vllm, or with one of kind python",
                )
    return completions


def _count(completions: Sequence[_Completion]) -> str:
    tokens = sum(len(completion.tokens) for completion in completions)
    return f"{len(completions)} texts, {tokens} tokens"


def _texts(text: str) -> np.ndarray:
    return np.array([text.encode()], dtype=np.object_)
