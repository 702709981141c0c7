"""Recipes: how a source becomes a Triton repository. One module a recipe; each gives the same record."""

from __future__ import annotations

from catalog.documents import Document
from catalog.errors import InvalidFilesError
from catalog.models import ModelSpec
from catalog.recipes import TextEmbeddingRecipe
from model_build.recipes.base import Recipe
from model_build.recipes.text_embedding import TextEmbedding

__all__ = ["Recipe", "recipe_for"]


def recipe_for(model: Document[ModelSpec]) -> Recipe:
    """What builds a model; it has checked that the model's file asks for nothing it cannot do."""
    match model.record.recipe:
        case TextEmbeddingRecipe() as recipe:
            return TextEmbedding(model, recipe)
        case other:
            raise InvalidFilesError(
                [model.problem(("recipe", "kind"), f"the recipe {other.kind} is not built yet")]
            )
