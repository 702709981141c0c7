"""text-classification: one score per label and text."""

from __future__ import annotations

from typing import Any

import torch

from model_build.exporters.heads.base import TextHead
from model_build.exporters.heads.scores import activation_of, scores
from tritonstack.files.model.recipes import TextClassificationRecipe, TextPairClassificationRecipe


class TextClassification(TextHead):
    """A sequence classifier with its activation."""

    task = "text classification"
    transformers_class = "AutoModelForSequenceClassification"
    outputs = ("scores",)

    def __init__(
        self, encoder: torch.nn.Module, recipe: TextClassificationRecipe | TextPairClassificationRecipe
    ) -> None:
        super().__init__(encoder, recipe)
        self.activation = activation_of(self.config, recipe.activation)

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the scores of each row."""
        return scores(answer.logits, self.activation)
