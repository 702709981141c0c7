"""Recipes: how a source becomes a Triton repository. One module a recipe; each gives the same record."""

from __future__ import annotations

from model_build.data.context import Recipe
from model_build.recipes.ensemble import Ensemble
from model_build.recipes.hugging_face import HuggingFace
from model_build.recipes.onnx import OnnxGraph
from model_build.recipes.python import PythonModel
from model_build.recipes.torchscript import TorchScript
from model_build.recipes.trees import TreesForFil
from model_build.recipes.vllm import VllmModel
from model_build.repository.existing import read_existing
from tritonstack.base.documents import Document
from tritonstack.base.errors import InvalidFilesError
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import (
    EnsembleRecipe,
    HuggingFaceRecipe,
    OnnxRecipe,
    PythonRecipe,
    TorchScriptRecipe,
    TreesRecipe,
    VllmRecipe,
)

__all__ = ["Recipe", "recipe_for"]


def recipe_for(model: Document[ModelSpec]) -> Recipe:
    """What builds a model; it has checked that the model's file asks for nothing it cannot do."""
    read_existing(model)
    chosen: Recipe
    match model.record.recipe:
        case HuggingFaceRecipe() as recipe:
            chosen = HuggingFace(model, recipe)
        case TorchScriptRecipe() as recipe:
            chosen = TorchScript(model, recipe)
        case OnnxRecipe() as recipe:
            chosen = OnnxGraph(model, recipe)
        case TreesRecipe() as recipe:
            chosen = TreesForFil(model, recipe)
        case PythonRecipe() as recipe:
            chosen = PythonModel(model, recipe)
        case VllmRecipe() as recipe:
            chosen = VllmModel(model, recipe)
        case EnsembleRecipe() as recipe:
            chosen = Ensemble(model, recipe)
        case other:
            raise InvalidFilesError(
                [
                    model.violation(
                        ("recipe", "kind"),
                        f"the recipe {other.kind} is not supported",
                        remedy="choose another kind",
                        code="TS109",
                    )
                ]
            )
    return chosen
