"""question-answering: start and end logits per token."""

from __future__ import annotations

from typing import Any

import torch

from model_build.exporters.heads.base import TextHead, at_tokens


class QuestionAnswering(TextHead):
    """A span finder; a later step chooses the best span."""

    task = "question answering"
    transformers_class = "AutoModelForQuestionAnswering"
    outputs = ("start_logits", "end_logits")

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return two logits per token."""
        return (
            at_tokens(answer.start_logits, attention_mask),
            at_tokens(answer.end_logits, attention_mask),
        )
