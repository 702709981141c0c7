"""token-classification: one score per label and token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers

from model_build.exporters.heads.base import TextHead, at_tokens
from model_build.exporters.heads.scores import labels_of, scores


class TokenClassification(TextHead):
    """A token classifier: one label per token."""

    task = "token classification"
    token_tensors = ("offsets",)
    outputs = ("scores",)

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the class for token classification."""
        return transformers.AutoModelForTokenClassification

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the labels from config.json."""
        return {"scores": labels_of(self.config)}

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the scores of each token."""
        return at_tokens(scores(answer.logits, "softmax"), attention_mask)
