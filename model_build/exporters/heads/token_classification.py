"""token-classification: a score of each token for every label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers

from model_build.exporters.heads.base import TextHead, at_tokens
from model_build.exporters.heads.scores import labels_of, scores


class TokenClassification(TextHead):
    """A classifier of tokens, of whose labels one is right for each."""

    task = "token classification"
    told_of_tokens = ("offsets",)
    outputs = ("scores",)

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """The class for tokens' labels."""
        return transformers.AutoModelForTokenClassification

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """As config.json has them."""
        return {"scores": labels_of(self.config)}

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """The scores of each token."""
        return at_tokens(scores(answer.logits, "softmax"), attention_mask)
