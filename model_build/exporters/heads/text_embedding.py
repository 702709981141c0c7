"""text-embedding: the tokens' vectors pooled into one for each text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from catalog.recipes import TextEmbeddingRecipe
from model_build.errors import ExportError
from model_build.exporters.heads.base import TextHead
from model_build.exporters.heads.encoders import POOLER, encoder_class, encoder_of


class TextEmbedding(TextHead):
    """The encoder, pooling and normalisation."""

    task = "text embedding"
    outputs = ("embedding",)
    unused_weights = POOLER

    def __init__(self, encoder: torch.nn.Module, recipe: TextEmbeddingRecipe) -> None:
        super().__init__(encoder_of(encoder), recipe)
        self.pooling = recipe.pooling
        self.normalize = recipe.normalize

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """The class without an end."""
        return encoder_class(config)

    @classmethod
    def check_source(cls, folder: Path, recipe: TextEmbeddingRecipe) -> None:
        """Refuse a sentence-transformers model that does more, or other, than the recipe."""
        file = folder / "modules.json"
        if not file.is_file():
            return
        for module in json.loads(file.read_text(encoding="utf-8")):
            kind = str(module["type"]).rpartition(".")[2]
            if kind not in ("Transformer", "Pooling", "Normalize"):
                raise ExportError(
                    f"the model ends in a layer of kind {kind}, which the recipe text-embedding does not "
                    "export",
                    remedy="choose a model made of Transformer, Pooling and Normalize",
                )
            if kind == "Pooling":
                _check_pooling(folder / module["path"] / "config.json", recipe)

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """One vector for each row."""
        states = answer.last_hidden_state
        vectors = self._pool(states, attention_mask.unsqueeze(-1).to(states.dtype))
        return functional.normalize(vectors, p=2.0, dim=1) if self.normalize else vectors

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "max":
            return states.masked_fill(mask == 0, torch.finfo(states.dtype).min).amax(dim=1)
        return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)


def _check_pooling(file: Path, recipe: TextEmbeddingRecipe) -> None:
    if not file.is_file():
        return
    config = json.loads(file.read_text(encoding="utf-8"))
    flags = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}
    trained = [name for name, flag in flags.items() if config.get(f"pooling_mode_{flag}")]
    if trained and trained != [recipe.pooling]:
        raise ExportError(
            f"the model was trained with {' and '.join(trained)} pooling, the recipe says {recipe.pooling}",
            remedy=f"write `pooling: {trained[0]}` in model.yaml",
        )
