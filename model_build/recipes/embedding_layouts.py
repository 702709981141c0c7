"""The two repositories that a text-embedding model can become.

texts in:   an ensemble of a tokenizer and the encoder
tokens in:  the encoder alone, under the model's own name
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from catalog.manifests import TensorSpec
from catalog.models import ModelSpec
from catalog.recipes import TextEmbeddingRecipe
from model_build.cases import Case
from model_build.execution_environment import build_environment, installed_requirement
from model_build.graphs.records import SettledGraph
from model_build.recipes.base import Workshop
from model_build.repository.parts import (
    EnsembleStep,
    add_ensemble,
    add_graph_model,
    add_python_model,
    environment_file,
)

if TYPE_CHECKING:
    from model_build.exporters.text_embedding import TextEmbeddingFramework

TOKENIZER, ENCODER = "tokenizer", "model"
TOKENIZER_CODE = Path(__file__).parent.parent / "served" / "text_tokenizer.py"
TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))


class EmbeddingLayout(Protocol):
    """What callers send, where the parts lie, and what the served archive is asked."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the Triton models that are not the entry."""

    def inputs(self, graph: SettledGraph) -> tuple[TensorSpec, ...]:
        """What callers send."""

    def lay(
        self, repository: Path, graph: SettledGraph, framework: TextEmbeddingFramework, workshop: Workshop
    ) -> str | None:
        """Fill the repository; the Python that it is bound to, or None for any."""

    def cases(self, framework: TextEmbeddingFramework, output: str) -> Iterator[Case]:
        """What the served archive is asked, and the framework's answers."""


def layout_for(spec: ModelSpec, recipe: TextEmbeddingRecipe) -> EmbeddingLayout:
    """The layout that a model's file asks for."""
    return TokensIn(spec, recipe) if recipe.input == "tokens" else TextsIn(spec, recipe)


class TextsIn:
    """An ensemble: the tokenizer in Python, the graph in ONNX Runtime."""

    parts = (TOKENIZER, ENCODER)

    def __init__(self, spec: ModelSpec, recipe: TextEmbeddingRecipe) -> None:
        self._spec = spec
        self._recipe = recipe

    def inputs(self, graph: SettledGraph) -> tuple[TensorSpec, ...]:
        """Texts, whatever the graph takes."""
        del graph
        return (TEXT,)

    def lay(
        self, repository: Path, graph: SettledGraph, framework: TextEmbeddingFramework, workshop: Workshop
    ) -> str | None:
        """Three folders; the tokenizer's packages may bind them to one Python."""
        batching = self._spec.batching
        version = add_python_model(
            repository,
            name=TOKENIZER,
            code=TOKENIZER_CODE,
            inputs=(TEXT,),
            outputs=graph.inputs,
            batching=batching,
        )
        (version / "tokenizer.json").write_text(framework.served_tokenizer(), encoding="utf-8")
        environment = build_environment(
            [installed_requirement("tokenizers")],
            file=environment_file(repository, TOKENIZER),
            cache_dir=workshop.cache_dir,
            python=workshop.target.python,
        )
        add_graph_model(
            repository,
            name=ENCODER,
            graph=graph,
            batching=self._spec.batching,
            triton=self._spec.triton,
            target=workshop.target,
        )
        add_ensemble(
            repository,
            name=self._spec.name,
            inputs=(TEXT,),
            outputs=graph.outputs,
            steps=_steps(graph),
            max_batch=batching.max_batch,
        )
        return environment.python

    def cases(self, framework: TextEmbeddingFramework, output: str) -> Iterator[Case]:
        """The test inputs, and with them the shortest text there is and one that must be cut."""
        for name, text, typical in _texts(self._spec, self._recipe):
            expected = framework.embed_tokens(*framework.tokenize([text]))
            inputs = {TEXT.name: np.array([[text]], dtype=np.object_)}
            yield Case(name, inputs, {output: expected}, typical=typical)


class TokensIn:
    """The graph alone, which runs on every Python because it needs none."""

    parts = ()

    def __init__(self, spec: ModelSpec, recipe: TextEmbeddingRecipe) -> None:
        self._spec = spec
        self._recipe = recipe

    def inputs(self, graph: SettledGraph) -> tuple[TensorSpec, ...]:
        """What the graph takes."""
        return graph.inputs

    def lay(
        self, repository: Path, graph: SettledGraph, framework: TextEmbeddingFramework, workshop: Workshop
    ) -> str | None:
        """One folder, named as the model."""
        del framework
        add_graph_model(
            repository,
            name=self._spec.name,
            graph=graph,
            batching=self._spec.batching,
            triton=self._spec.triton,
            target=workshop.target,
        )
        return None

    def cases(self, framework: TextEmbeddingFramework, output: str) -> Iterator[Case]:
        """The tokens of each text alone, and those of all test inputs filled up to one length."""
        for name, text, typical in _texts(self._spec, self._recipe):
            yield self._case(framework, output, name, framework.tokenize([text]), typical=typical)
        ids, mask = framework.tokenize(self._spec.test_texts)
        for row in range(len(ids)):
            tokens = ids[row : row + 1], mask[row : row + 1]
            yield self._case(framework, output, f"test input {row + 1}, padded", tokens, typical=False)

    def _case(
        self,
        framework: TextEmbeddingFramework,
        output: str,
        name: str,
        tokens: tuple[np.ndarray, np.ndarray],
        *,
        typical: bool,
    ) -> Case:
        ids, mask = tokens
        inputs = {"input_ids": ids, "attention_mask": mask}
        return Case(name, inputs, {output: framework.embed_tokens(ids, mask)}, typical=typical)


def _texts(spec: ModelSpec, recipe: TextEmbeddingRecipe) -> Iterator[tuple[str, str, bool]]:
    """Names and texts to ask for, and whether users send such a thing."""
    texts = spec.test_texts
    for number, text in enumerate(texts, start=1):
        yield f"test input {number}", text, True
    yield "an empty text", "", False
    yield "a text to cut", " ".join(texts * (recipe.max_length // 4 + 1)), False


def _steps(graph: SettledGraph) -> Sequence[EnsembleStep]:
    tokens = {tensor.name: tensor.name for tensor in graph.inputs}
    vectors = {tensor.name: tensor.name for tensor in graph.outputs}
    return [
        EnsembleStep(TOKENIZER, {TEXT.name: TEXT.name}, tokens),
        EnsembleStep(ENCODER, tokens, vectors),
    ]
