"""Heads with one score per label, or start and end logits per token."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from model_build.errors import ExportError, FieldError
from model_build.exporters.heads.base import (
    Activation,
    Head,
    SourceSettings,
    TextHead,
    activation_of,
    at_tokens,
    scores,
)
from model_build.exporters.sentence_settings import (
    MODULES,
    SENTENCE_CONFIG,
    TransformerTask,
    lengths_of,
    module_of,
    prompt_of,
    transformer_config,
)
from model_build.sources.base import read_settings_file
from tritonstack.files.model.recipes import (
    LONGEST_TEXT,
    ImageClassificationRecipe,
    TextClassificationRecipe,
    TextPairClassificationRecipe,
)


class ImageClassification(Head):
    """An image classifier with its activation."""

    task = "image classification"
    transformers_class = "AutoModelForImageClassification"
    outputs = ("scores",)

    def __init__(self, encoder: torch.nn.Module, recipe: ImageClassificationRecipe) -> None:
        super().__init__(encoder, recipe)
        if "pixel_values" not in inspect.signature(encoder.forward).parameters:
            raise ExportError(
                f"{type(encoder).__name__} takes no pixel values",
                remedy="choose an image model, or another kind of recipe",
            )
        self.activation = activation_of(self.config, recipe.activation)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the scores of each image."""
        return scores(self.encoder(pixel_values=pixel_values).logits, self.activation)


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


# Versions before 4 write the activation into config.json as `sbert_ce_default_activation_function`, versions
# 4 and 5 as `sentence_transformers.activation_fn`, later ones into config_sentence_transformers.json. A
# source without such settings is a plain transformers model.

SCORING = TransformerTask("sequence-classification", "scores", "logits", "text-pair-classification")
ACTIVATIONS: Mapping[str, Activation] = {"Identity": "none", "Sigmoid": "sigmoid", "Softmax": "softmax"}
"""Classes of torch.nn that sentence-transformers can name."""


class TextPairClassification(TextClassification):
    """A sequence classifier of two texts, with sentence-transformers' settings if the source has them."""

    task = "text classification"

    @classmethod
    def read_source(cls, folder: Path, recipe: Any) -> SourceSettings:
        """Fill the recipe from the source; raise an error for settings that it cannot apply."""
        path = _transformer(folder)
        if (prompt := prompt_of(folder)) is not None:
            raise ExportError(
                f"{prompt.file} in the source sets the prompt {prompt.value!r}, which the recipe "
                "text-pair-classification does not add",
                remedy="set `default_prompt_name` to null there, and let clients send the prompt",
            )
        config, name = transformer_config(folder, path, SCORING)
        stated, usual = lengths_of(folder, path, config, name)
        length = recipe.max_length or (stated.value if stated else usual) or recipe.usual_length
        if length > LONGEST_TEXT:
            raise FieldError(
                ("recipe", "max_length"),
                f"the source allows {length} tokens; the recipe allows at most {LONGEST_TEXT}",
                remedy="set `max_length` in the recipe",
            )
        activation = recipe.activation or _activation(folder, path)
        filled = recipe.model_copy(update={"max_length": length, "activation": activation})
        return SourceSettings(filled, folder / path, lowercase=bool(config.get("do_lower_case")))


def _transformer(folder: Path) -> str:
    """Return the folder of the Transformer module, which must be the only one."""
    if not (folder / MODULES).is_file():
        return ""
    modules = [module_of(item) for item in read_settings_file(folder, MODULES, list)]
    if [kind for kind, _ in modules] != ["Transformer"]:
        raise ExportError(
            f"{MODULES} lists {', '.join(kind for kind, _ in modules) or 'no module'}; "
            "expected a cross-encoder, which has a Transformer only",
            remedy="for vectors use the recipe text-embedding; for other models, one of kind python",
        )
    return modules[0][1]


def _activation(folder: Path, path: str) -> Activation | None:
    """Return the activation that sentence-transformers saved; None if there is none."""
    config, own = (
        read_settings_file(place, name)
        for place, name in ((folder / path, "config.json"), (folder, SENTENCE_CONFIG))
    )
    inner = config.get("sentence_transformers")
    settings: tuple[tuple[str, Any], ...] = (
        (f"{SENTENCE_CONFIG}: activation_fn", own.get("activation_fn")),
        (
            "config.json: sentence_transformers.activation_fn",
            inner.get("activation_fn") if isinstance(inner, dict) else None,
        ),
        (
            "config.json: sbert_ce_default_activation_function",
            config.get("sbert_ce_default_activation_function"),
        ),
    )
    for place, name in settings:
        if name is None:
            continue
        package, _, kind = str(name).rpartition(".")
        if not package.startswith("torch.nn") or kind not in ACTIVATIONS:
            raise FieldError(
                ("recipe", "activation"),
                f"{place} in the source is {name!r}; the recipe applies torch.nn's {', '.join(ACTIVATIONS)}",
                remedy="set `activation` in the recipe, or use a recipe of kind python",
            )
        return ACTIVATIONS[kind]
    return None


class TokenClassification(TextHead):
    """A token classifier: one label per token."""

    task = "token classification"
    transformers_class = "AutoModelForTokenClassification"
    token_tensors = ("offsets",)
    outputs = ("scores",)

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the scores of each token."""
        return at_tokens(scores(answer.logits, "softmax"), attention_mask)
