"""What follows a timm model: scores of its classifier, or the vector before it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

from model_build.exporters.heads.base import Head
from model_build.exporters.heads.scores import activation_of, scores
from tritonstack.files.model.recipes import ImageClassificationRecipe, ImageEmbeddingRecipe


class TimmClassification(Head):
    """A timm model with its classifier and an activation."""

    task = "image classification"
    outputs = ("scores",)

    def __init__(
        self, encoder: torch.nn.Module, recipe: ImageClassificationRecipe, labels: tuple[str, ...]
    ) -> None:
        super().__init__(encoder, recipe)
        self._labels = labels
        self.activation = activation_of(self.config, recipe.activation)

    @property
    def config(self) -> Any:
        """The number of labels."""
        return SimpleNamespace(num_labels=self.encoder.num_classes)

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the labels of the source, if it has any."""
        return {"scores": self._labels} if self._labels else {}

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the scores of each image."""
        return scores(self.encoder(pixel_values), self.activation)


class TimmEmbedding(Head):
    """A timm model without its classifier, and normalization."""

    task = "image embedding"
    outputs = ("embedding",)

    def __init__(self, encoder: torch.nn.Module, recipe: ImageEmbeddingRecipe) -> None:
        super().__init__(encoder, recipe)
        self.normalize = recipe.normalize

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return one vector per image."""
        vectors: torch.Tensor = self.encoder(pixel_values)
        return functional.normalize(vectors, p=2.0, dim=1) if self.normalize else vectors
