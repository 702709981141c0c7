"""What follows a transformers model in each task: one module a task, and how to find it."""

from __future__ import annotations

from model_build.exporters.heads.base import Head, SourceSettings, TextHead
from model_build.exporters.heads.feature_extraction import FeatureExtraction
from model_build.exporters.heads.image_classification import ImageClassification
from model_build.exporters.heads.image_embedding import ImageEmbedding
from model_build.exporters.heads.question_answering import QuestionAnswering
from model_build.exporters.heads.text_classification import TextClassification
from model_build.exporters.heads.text_embedding import TextEmbedding
from model_build.exporters.heads.text_pair_classification import TextPairClassification
from model_build.exporters.heads.token_classification import TokenClassification
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
