"""question-answering: for each token, how likely an answer begins and ends with it."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from model_build.exporters.heads.base import TextHead, at_tokens


class QuestionAnswering(TextHead):
    """A finder of spans; what the best span is, a step behind it says."""

    task = "question answering"
    outputs = ("start_logits", "end_logits")

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """The class for spans in a context."""
        return transformers.AutoModelForQuestionAnswering

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Two numbers for each token."""
        return (
            at_tokens(answer.start_logits, attention_mask),
            at_tokens(answer.end_logits, attention_mask),
        )
