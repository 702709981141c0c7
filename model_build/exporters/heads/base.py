"""A transformers model with its task head as one module.

Each head defines the transformers class, the output names, and the labels.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import transformers

from model_build.errors import ExportError
from model_build.exporters.sentence_settings import tokens_allowed
from tritonstack.files.model.fields import Trust
from tritonstack.files.model.recipes import HuggingFaceRecipe, TextRecipe

Activation = Literal["softmax", "sigmoid", "none"]
_BY_PROBLEM: dict[str, Activation] = {
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
    "regression": "none",
}


def activation_of(config: Any, requested: Activation | None) -> Activation:
    """Return the recipe's activation, else the one of the model's problem type.

    Without a problem type, follow transformers' pipelines: sigmoid for one label, softmax for several.
    """
    if requested == "softmax" and config.num_labels == 1:
        raise ExportError(
            "the model has one label, whose softmax is always 1",
            remedy="set `activation: sigmoid` or `activation: none` in model.yaml",
        )
    by_count: Activation = "sigmoid" if config.num_labels == 1 else "softmax"
    return requested or _BY_PROBLEM.get(getattr(config, "problem_type", None) or "", by_count)


def scores(numbers: torch.Tensor, activation: Activation) -> torch.Tensor:
    """Return a score per label, along the last dimension."""
    if activation == "softmax":
        return torch.softmax(numbers, dim=-1)
    return torch.sigmoid(numbers) if activation == "sigmoid" else numbers


def labels_of(config: Any) -> tuple[str, ...]:
    """Return the labels in logit order; config.json may list them in any order."""
    labels = {int(place): str(label) for place, label in config.id2label.items()}
    if sorted(labels) != list(range(config.num_labels)):
        raise ExportError(
            f"config.json: expected labels 0 to {config.num_labels - 1}, got {sorted(labels)}",
            remedy="correct id2label in the model's config.json",
        )
    return tuple(labels[place] for place in range(config.num_labels))


@dataclass(frozen=True)
class SourceSettings:
    """The recipe completed from the files beside the weights."""

    recipe: Any
    folder: Path
    """Folder of the model and its tokenizer."""
    lowercase: bool = False
    """Whether to lowercase texts before tokenizing."""
    layers: tuple[Any, ...] = ()
    """Layers that follow the model in the source."""
    dimensions: int | None = None
    """How many values of a vector the source keeps, after its layers."""
    normalizes: bool = False
    """Whether the last layer in the source scales vectors to length 1."""


Tensors = torch.Tensor | tuple[torch.Tensor, ...]


class Head(torch.nn.Module):
    """Base class of all tasks."""

    task: ClassVar[str]
    """Purpose of the task, for error messages."""
    transformers_class: ClassVar[str]
    """The class that loads the models of this task."""
    outputs: ClassVar[tuple[str, ...]]
    """Names of the outputs, in forward's order."""
    unused_weights: ClassVar[tuple[str, ...]] = ()
    """Parts of the model that this head ignores."""
    two_towers: ClassVar[tuple[str, ...]] = ()
    """Architectures with a text model and an image model, of which this head uses one."""

    def __init__(self, encoder: torch.nn.Module, recipe: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.recipe = recipe

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the transformers class that loads the models of this task."""
        return getattr(transformers, cls.transformers_class)

    @classmethod
    def part_of(cls, model: Any) -> Any:
        """Return the part of a model that this head uses."""
        return model

    @classmethod
    def read_source(cls, folder: Path, recipe: Any) -> SourceSettings:
        """Read the settings of a source; raise ExportError if its files contradict the recipe."""
        return SourceSettings(recipe, folder)

    def add_layers(self, settings: SourceSettings, *, trust: Trust) -> None:
        """Load the layers that follow the model in the source."""

    @property
    def config(self) -> Any:
        """What the model says of itself."""
        return self.encoder.config

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the labels of an output's positions, if it has any."""
        return {"scores": labels_of(self.config)} if "scores" in self.outputs else {}


class TextHead(Head):
    """Base class of heads that read tokens."""

    token_tensors: ClassVar[tuple[str, ...]] = ()
    """Token tensors returned to callers that send texts, for outputs with one row per token."""

    def __init__(self, encoder: torch.nn.Module, recipe: HuggingFaceRecipe) -> None:
        super().__init__(encoder, recipe)
        parameters = inspect.signature(encoder.forward).parameters
        if "input_ids" not in parameters:
            raise ExportError(
                f"{type(encoder).__name__} takes no token ids, so it is not a text model",
                remedy="choose a text model, or another kind of recipe",
            )
        self.takes_mask = "attention_mask" in parameters
        self.takes_token_types = "token_type_ids" in parameters

    @classmethod
    def read_source(cls, folder: Path, recipe: TextRecipe) -> SourceSettings:
        """Return the recipe with the default length filled in; a short model lowers the default."""
        allowed = tokens_allowed(folder) or recipe.usual_length
        length = recipe.max_length or min(recipe.usual_length, allowed)
        return SourceSettings(recipe.model_copy(update={"max_length": length}), folder)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> Tensors:
        """Return the served tensors, one row per row of ids."""
        inputs = {"input_ids": input_ids}
        if self.takes_mask:
            inputs["attention_mask"] = attention_mask
        if self.takes_token_types:
            # If all tokens have one type, callers may omit it.
            inputs["token_type_ids"] = (
                torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
            )
        return self.finish(self.encoder(**inputs), attention_mask)

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> Tensors:
        """Return the task's outputs from the model's answer."""
        raise NotImplementedError


def at_tokens(values: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Zero the values at padding tokens, where they are meaningless."""
    is_padding = attention_mask == 0
    return values.masked_fill(is_padding if values.dim() == 2 else is_padding.unsqueeze(-1), 0.0)
