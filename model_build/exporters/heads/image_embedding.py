"""image-embedding: one vector per image, comparable with those of the texts of the same model."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch.nn import functional

from model_build.errors import UnsupportedModelError
from model_build.exporters.heads.base import Head
from model_build.exporters.heads.two_towers import CLIP, image_tower
from tritonstack.files.model.recipes import ImageEmbeddingRecipe


class ImageEmbedding(Head):
    """The image model of CLIP, its projection, and normalization."""

    task = "image embedding"
    outputs = ("embedding",)
    two_towers = (CLIP,)

    def __init__(self, encoder: torch.nn.Module, recipe: ImageEmbeddingRecipe) -> None:
        super().__init__(encoder, recipe)
        self.normalize = recipe.normalize

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the class of the whole model."""
        if config.model_type != CLIP:
            raise UnsupportedModelError(
                f"image-embedding needs a CLIP model; config.json describes a {config.model_type} model",
                remedy="choose a CLIP model, or a timm model with `library: timm`; for another model, export "
                "its vectors to ONNX and use the recipe onnx with `input: image`",
            )
        return transformers.AutoModel

    @classmethod
    def part_of(cls, model: Any) -> Any:
        """Return the image model."""
        return image_tower(model)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return one vector per image."""
        vectors: torch.Tensor = self.encoder(pixel_values=pixel_values).image_embeds
        return functional.normalize(vectors, p=2.0, dim=1) if self.normalize else vectors
