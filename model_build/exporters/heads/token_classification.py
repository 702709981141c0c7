"""token-classification: one score per label and token."""

from __future__ import annotations

from typing import Any

import torch

from model_build.exporters.heads.base import TextHead, at_tokens
from model_build.exporters.heads.scores import scores


class TokenClassification(TextHead):
    """A token classifier: one label per token."""

    task = "token classification"
    transformers_class = "AutoModelForTokenClassification"
    token_tensors = ("offsets",)
    outputs = ("scores",)

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the scores of each token."""
        return at_tokens(scores(answer.logits, "softmax"), attention_mask)
