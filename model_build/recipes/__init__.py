"""Recipes: how a source becomes a Triton repository. One module a recipe; each gives the same record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from model_build.data import Recipe
from model_build.recipes.ensemble import Ensemble
from model_build.recipes.hugging_face import HuggingFace
from model_build.recipes.onnx import OnnxGraph
from model_build.recipes.python import PythonModel
from model_build.recipes.scikit_learn import ScikitLearn
from model_build.recipes.text_generation import TextGeneration
from model_build.recipes.torchscript import TorchScript
from model_build.recipes.trees import TreesForFil
from model_build.recipes.triton import TritonRepository
from model_build.recipes.vllm import VllmModel
from model_build.repository.existing import read_existing
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import (
    EnsembleRecipe,
    GenerationRecipe,
    HuggingFaceRecipe,
    OnnxRecipe,
    PythonRecipe,
    ScikitLearnRecipe,
    TorchScriptRecipe,
    TreesRecipe,
    TritonRecipe,
    VllmRecipe,
)

BUILDERS: Sequence[tuple[type, Callable[[Document[ModelSpec], Any], Recipe[Any]]]] = (
    (HuggingFaceRecipe, HuggingFace),
    (TorchScriptRecipe, TorchScript),
    (OnnxRecipe, OnnxGraph),
    (TreesRecipe, TreesForFil),
    (ScikitLearnRecipe, ScikitLearn),
    (PythonRecipe, PythonModel),
    (VllmRecipe, VllmModel),
    (GenerationRecipe, TextGeneration),
    (TritonRecipe, TritonRepository),
    (EnsembleRecipe, Ensemble),
)
"""What builds each kind."""


def recipe_for(model: Document[ModelSpec]) -> Recipe[Any]:
    """What builds a model; it has checked that the model's file asks for nothing it cannot do."""
    read_existing(model)
    recipe = model.record.recipe
    return next(build(model, recipe) for kind, build in BUILDERS if isinstance(recipe, kind))
