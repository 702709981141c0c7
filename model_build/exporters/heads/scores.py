"""From a classifier's numbers to scores, and what the labels are."""

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


def activation_of(config: Any, wanted: Activation | None) -> Activation:
    """What the recipe wants, else what the model's problem type asks for.

    A model that does not say is taken as transformers' own pipelines take it: one label is a yes or no, and
    of several one is right.
    """
    if wanted == "softmax" and config.num_labels == 1:
        raise ExportError(
            "the model has one label, whose softmax is always 1",
            remedy="write `activation: sigmoid` or `activation: none` in model.yaml",
        )
    by_count: Activation = "sigmoid" if config.num_labels == 1 else "softmax"
    return wanted or _BY_PROBLEM.get(getattr(config, "problem_type", None) or "", by_count)


def scores(numbers: torch.Tensor, activation: Activation) -> torch.Tensor:
    """A score for every label, along the last dimension."""
    if activation == "softmax":
        return torch.softmax(numbers, dim=-1)
    return torch.sigmoid(numbers) if activation == "sigmoid" else numbers


def labels_of(config: Any) -> tuple[str, ...]:
    """The model's labels in the order of its numbers; config.json may list them in any."""
    named = {int(place): str(label) for place, label in config.id2label.items()}
    if sorted(named) != list(range(config.num_labels)):
        raise ExportError(
            f"config.json names labels for the places {sorted(named)} of {config.num_labels}",
            remedy="mend id2label in the model's config.json",
        )
    return tuple(named[place] for place in range(config.num_labels))
