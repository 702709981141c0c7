"""text-embedding: texts or their tokens in, one vector each out, by a pooled encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from catalog.documents import Document
from catalog.errors import InvalidFilesError
from catalog.models import ModelSpec
from catalog.recipes import TextEmbeddingRecipe
from catalog.targets import Target
from model_build.cases import Case
from model_build.graphs.records import ExportedGraph
from model_build.graphs.settle import settle_graph
from model_build.progress import Steps
from model_build.recipes.base import LaidRepository, Workshop
from model_build.recipes.embedding_layouts import layout_for

if TYPE_CHECKING:
    from model_build.exporters.text_embedding import TextEmbeddingFramework

Array = NDArray[Any]
RANDOM_SEED = 20240917


class TextEmbedding:
    """The recipe for one model."""

    tools = ("torch", "transformers", "tokenizers", "onnx", "onnx-ir", "onnxscript", "onnxruntime")

    def __init__(self, model: Document[ModelSpec], recipe: TextEmbeddingRecipe) -> None:
        self._spec = model.record
        self._recipe = recipe
        self._layout = layout_for(self._spec, recipe)
        if self._spec.name in self._layout.parts:
            raise InvalidFilesError(
                [
                    model.problem(
                        ("name",),
                        f"{self._spec.name!r} is the name of a part of every artifact that takes texts",
                        remedy="give the model another name",
                    )
                ]
            )

    def lay_repository(self, workshop: Workshop, steps: Steps) -> LaidRepository:
        """Load the framework, export, compare, and lay the repository."""
        framework = steps.run(
            "load", lambda: self._load(workshop), lambda loaded: f"vocabulary of {loaded.vocabulary_size}"
        )
        graph = steps.run("export", lambda: framework.export(workshop.folder / "graph"), _describe_graph)
        cases = list(self._token_cases(framework, graph.outputs[0].name))
        settled = settle_graph(graph, cases=cases, spec=self._spec, workshop=workshop, steps=steps)
        repository = workshop.folder / "repository"
        python = steps.run(
            "repository",
            lambda: self._layout.lay(repository, settled, framework, workshop),
            lambda bound: f"{', '.join((self._spec.name, *self._layout.parts))}; runs on {_any(bound)}",
        )
        return LaidRepository(
            folder=repository,
            entry=self._spec.name,
            target=Target(workshop.target.hardware, python),
            inputs=self._layout.inputs(settled),
            outputs=settled.outputs,
            parity=(settled.parity,),
            cases=list(self._layout.cases(framework, settled.outputs[0].name)),
            precision=settled.precision,
            tensorrt=settled.tensorrt,
            candidates=settled.candidates,
        )

    def _load(self, workshop: Workshop) -> TextEmbeddingFramework:
        # torch takes seconds to import, and a build that finds its artifact does not need it.
        from model_build.exporters.text_embedding import TextEmbeddingFramework  # noqa: PLC0415

        return TextEmbeddingFramework(
            source=workshop.source,
            recipe=self._recipe,
            trust_remote_code=self._spec.trust.remote_code is not None,
        )

    def _token_cases(self, framework: TextEmbeddingFramework, output: str) -> Iterator[Case]:
        for name, ids, mask, typical in self._tokens(framework):
            yield Case(
                name,
                {"input_ids": ids, "attention_mask": mask},
                {output: framework.embed_tokens(ids, mask)},
                typical=typical,
            )

    def _tokens(self, framework: TextEmbeddingFramework) -> Iterator[tuple[str, Array, Array, bool]]:
        random = np.random.default_rng(RANDOM_SEED)
        for batch, length in shapes_to_compare(self._spec.batching.max_batch, self._recipe.max_length):
            ids = random.integers(0, framework.vocabulary_size, (batch, length), dtype=np.int64)
            used = np.maximum(1, length - np.arange(batch) * 3)
            mask = (np.arange(length) < used[:, None]).astype(np.int64)
            yield f"random tokens {batch}x{length}", ids, mask, False
        texts = self._spec.test_texts
        for begin in range(0, len(texts), self._spec.batching.max_batch):
            ids, mask = framework.tokenize(texts[begin : begin + self._spec.batching.max_batch])
            yield "test inputs", ids, mask, True


def shapes_to_compare(max_batch: int, max_length: int) -> list[tuple[int, int]]:
    """Batches and lengths at their bounds, odd ones between them; the largest is as large as needed only."""
    shapes = [(1, 1), (1, 2), (2, 1), (3, 17), (1, max_length - 1), (2, max_length), (max_batch, 13)]
    return sorted({(min(batch, max_batch), min(length, max_length)) for batch, length in shapes})


def _describe_graph(graph: ExportedGraph) -> str:
    size = sum(file.stat().st_size for file in graph.file.parent.iterdir())
    return f"ONNX, {size / 1e6:.1f} MB"


def _any(python: str | None) -> str:
    return python or "any Python"
