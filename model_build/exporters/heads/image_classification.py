"""image-classification: one score per label and image."""

from __future__ import annotations

import inspect

import torch

from model_build.errors import ExportError
from model_build.exporters.heads.base import Head
from model_build.exporters.heads.scores import activation_of, scores
from tritonstack.files.model.recipes import ImageClassificationRecipe


class ImageClassification(Head):
    """An image classifier with its activation."""

    task = "image classification"
    transformers_class = "AutoModelForImageClassification"
    outputs = ("scores",)

    def __init__(self, encoder: torch.nn.Module, recipe: ImageClassificationRecipe) -> None:
        super().__init__(encoder, recipe)
        if "pixel_values" not in inspect.signature(encoder.forward).parameters:
            raise ExportError(
                f"{type(encoder).__name__} takes no pixel values",
                remedy="choose an image model, or another kind of recipe",
            )
        self.activation = activation_of(self.config, recipe.activation)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the scores of each image."""
        return scores(self.encoder(pixel_values=pixel_values).logits, self.activation)
