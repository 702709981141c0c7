"""What follows a transformers model in each task: one module a task, and how to find it."""

from __future__ import annotations

from model_build.exporters.heads.base import Head, SourceSettings, TextHead
from model_build.exporters.heads.feature_extraction import FeatureExtraction
from model_build.exporters.heads.image_classification import ImageClassification
from model_build.exporters.heads.question_answering import QuestionAnswering
from model_build.exporters.heads.text_classification import TextClassification
from model_build.exporters.heads.text_embedding import TextEmbedding
from model_build.exporters.heads.token_classification import TokenClassification
from tritonstack.spec.models.recipes import (
    FeatureExtractionRecipe,
    HuggingFaceRecipe,
    ImageClassificationRecipe,
    QuestionAnsweringRecipe,
    TextClassificationRecipe,
    TextEmbeddingRecipe,
    TokenClassificationRecipe,
)

__all__ = ["Head", "SourceSettings", "TextHead", "head_of"]

_HEADS: dict[type[HuggingFaceRecipe], type[Head]] = {
    TextEmbeddingRecipe: TextEmbedding,
    TextClassificationRecipe: TextClassification,
    TokenClassificationRecipe: TokenClassification,
    QuestionAnsweringRecipe: QuestionAnswering,
    FeatureExtractionRecipe: FeatureExtraction,
    ImageClassificationRecipe: ImageClassification,
}


def head_of(recipe: HuggingFaceRecipe) -> type[Head]:
    """The head that a recipe asks for."""
    return _HEADS[type(recipe)]
