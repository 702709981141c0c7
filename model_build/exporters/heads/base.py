"""A transformers model with the end of its task, as one module: tensors in, the served tensors out.

A task's module says which of transformers' classes loads its models, what it makes of their answer, what its
outputs are called and what their places mean. Everything else is the same for all.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from model_build.errors import ExportError
from tritonstack.spec.models.model import Trust
from tritonstack.spec.models.recipes import HuggingFaceRecipe, TextRecipe


@dataclass(frozen=True)
class SourceSettings:
    """What the files beside the weights say, and the recipe filled in from them."""

    recipe: Any
    folder: Path
    """Where the model and its tokenizer are."""
    lowercase: bool = False
    """Whether texts are put into lower case before they are split into tokens."""
    layers: tuple[Any, ...] = ()
    """What follows the model in the source."""


Tensors = torch.Tensor | tuple[torch.Tensor, ...]


class Head(torch.nn.Module):
    """What all tasks have in common."""

    task: ClassVar[str]
    """What it is for, in an error's words."""
    outputs: ClassVar[tuple[str, ...]]
    """The names of what forward returns, in its order."""
    unused_weights: ClassVar[tuple[str, ...]] = ()
    """Parts of the model that it does not look at."""

    def __init__(self, encoder: torch.nn.Module, recipe: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.recipe = recipe

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """The class of transformers that loads its models."""
        raise NotImplementedError

    @classmethod
    def read_source(cls, folder: Path, recipe: Any) -> SourceSettings:
        """The settings of a source; ExportError for files that contradict the recipe."""
        return SourceSettings(recipe, folder)

    def add_layers(self, settings: SourceSettings, *, trust: Trust) -> None:
        """Load what follows the model in the source."""

    @property
    def config(self) -> Any:
        """What the model says of itself."""
        return self.encoder.config

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """What the places of an output mean, for outputs that have a meaning."""
        return {}


class TextHead(Head):
    """The end of a model that reads tokens."""

    told_of_tokens: ClassVar[tuple[str, ...]] = ()
    """What callers who send texts are told beside the outputs, where these have a row for each token."""

    def __init__(self, encoder: torch.nn.Module, recipe: HuggingFaceRecipe) -> None:
        super().__init__(encoder, recipe)
        parameters = inspect.signature(encoder.forward).parameters
        if "input_ids" not in parameters:
            raise ExportError(f"{type(encoder).__name__} takes no ids of tokens, so it is no text model")
        self.takes_mask = "attention_mask" in parameters
        self.takes_token_types = "token_type_ids" in parameters

    @classmethod
    def read_source(cls, folder: Path, recipe: TextRecipe) -> SourceSettings:
        """The recipe with its usual length, where it states none."""
        length = recipe.max_length or recipe.usual_length
        return SourceSettings(recipe.model_copy(update={"max_length": length}), folder)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> Tensors:
        """The served tensors, a row for each row of ids."""
        inputs = {"input_ids": input_ids}
        if self.takes_mask:
            inputs["attention_mask"] = attention_mask
        if self.takes_token_types:
            # Where all tokens are of one type, callers need not say so.
            inputs["token_type_ids"] = (
                torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
            )
        return self.finish(self.encoder(**inputs), attention_mask)

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> Tensors:
        """What the task makes of the model's own answer."""
        raise NotImplementedError


def at_tokens(values: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Values of tokens, and 0 where only padding is: what a model says there means nothing."""
    is_padding = attention_mask == 0
    return values.masked_fill(is_padding if values.dim() == 2 else is_padding.unsqueeze(-1), 0.0)
