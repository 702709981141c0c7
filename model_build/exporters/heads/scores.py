"""Turn a classifier's logits into scores, and read its labels."""

from __future__ import annotations

from typing import Any, Literal

import torch

from model_build.errors import ExportError

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
