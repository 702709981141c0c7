"""What follows a transformers model in each task, and how to find it."""

from __future__ import annotations

from model_build.exporters.heads.base import Head, SourceSettings, TextHead
from model_build.exporters.heads.classifiers import (
    ImageClassification,
    QuestionAnswering,
    TextClassification,
    TextPairClassification,
    TokenClassification,
)
from model_build.exporters.heads.embeddings import FeatureExtraction, ImageEmbedding, TextEmbedding
from tritonstack.files.model.recipes import (
    FeatureExtractionRecipe,
    HuggingFaceRecipe,
    ImageClassificationRecipe,
    ImageEmbeddingRecipe,
    QuestionAnsweringRecipe,
    TextClassificationRecipe,
    TextEmbeddingRecipe,
    TextPairClassificationRecipe,
    TokenClassificationRecipe,
)

__all__ = ["Head", "SourceSettings", "TextHead", "head_of"]

_HEADS: dict[type[HuggingFaceRecipe], type[Head]] = {
    TextEmbeddingRecipe: TextEmbedding,
    TextClassificationRecipe: TextClassification,
    TextPairClassificationRecipe: TextPairClassification,
    TokenClassificationRecipe: TokenClassification,
    QuestionAnsweringRecipe: QuestionAnswering,
    FeatureExtractionRecipe: FeatureExtraction,
    ImageClassificationRecipe: ImageClassification,
    ImageEmbeddingRecipe: ImageEmbedding,
}


def head_of(recipe: HuggingFaceRecipe) -> type[Head]:
    """The head that a recipe asks for."""
    return _HEADS[type(recipe)]
