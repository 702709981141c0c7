"""Recipes: how a source becomes a Triton repository. One module a recipe; each gives the same record."""

from __future__ import annotations

from catalog.documents import Document
from catalog.models import ModelSpec, TextEmbeddingRecipe
from model_build.recipes.base import Recipe
from model_build.recipes.text_embedding import TextEmbedding

__all__ = ["Recipe", "recipe_for"]

_RECIPES = {TextEmbeddingRecipe: TextEmbedding}


def recipe_for(model: Document[ModelSpec]) -> Recipe:
    """What builds a model; it has checked that the model's file asks for nothing it cannot do."""
    return _RECIPES[type(model.record.recipe)](model)
