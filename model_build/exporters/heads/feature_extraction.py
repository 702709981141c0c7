"""feature-extraction: one vector per token."""

from __future__ import annotations

from typing import Any

import torch

from model_build.exporters.heads.base import TextHead, at_tokens
from model_build.exporters.heads.encoders import POOLER, encoder_class, encoder_of
from tritonstack.files.model.recipes import FeatureExtractionRecipe


class FeatureExtraction(TextHead):
    """The encoder, unchanged."""

    task = "feature extraction"
    token_tensors = ("attention_mask",)
    outputs = ("last_hidden_state",)
    unused_weights = POOLER

    def __init__(self, encoder: torch.nn.Module, recipe: FeatureExtractionRecipe) -> None:
        super().__init__(encoder_of(encoder), recipe)

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the class without a head."""
        return encoder_class(config)

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the last layer's vectors."""
        return at_tokens(answer.last_hidden_state, attention_mask)
