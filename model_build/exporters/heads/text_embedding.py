"""text-embedding: pool token vectors into one vector per text, and apply the layers that follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn import functional

from model_build.errors import ExportError, FieldError
from model_build.exporters.heads.base import SourceSettings, TextHead
from model_build.exporters.heads.dense import DenseLayer
from model_build.exporters.heads.encoders import POOLER, encoder_class, encoder_of
from model_build.exporters.heads.two_towers import CLIP, CLIP_TEXT, clip_positions, text_tower
from model_build.exporters.sentence_settings import fill_recipe, read_settings
from tritonstack.files.model.fields import Trust
from tritonstack.files.model.recipes import PoolingMode, TextEmbeddingRecipe, TextRecipe


class Normalize(torch.nn.Module):
    """Scales each vector to length 1."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the scaled vectors."""
        return functional.normalize(vectors, p=2.0, dim=1)


class TextEmbedding(TextHead):
    """The encoder, pooling, dense layers, and normalization."""

    task = "text embedding"
    outputs = ("embedding",)
    unused_weights = POOLER
    two_towers = (CLIP,)

    def __init__(self, encoder: torch.nn.Module, recipe: TextEmbeddingRecipe) -> None:
        super().__init__(encoder_of(encoder), recipe)
        self.modes: tuple[PoolingMode, ...] = recipe.modes or ("mean",)
        self.normalize = recipe.normalize is not False
        self.layers = torch.nn.Sequential()
        self._dimensions: int | None = None
        self._cuts_last = False

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the class without a head."""
        return transformers.AutoModel if config.model_type == CLIP else encoder_class(config)

    @classmethod
    def part_of(cls, model: Any) -> Any:
        """Return the text model of CLIP; any other model unchanged."""
        return text_tower(model) if model.config.model_type == CLIP else model

    @classmethod
    def read_source(cls, folder: Path, recipe: TextRecipe) -> SourceSettings:
        """Read sentence-transformers' settings, if the source has them."""
        settings = read_settings(folder)
        if settings is None or not isinstance(recipe, TextEmbeddingRecipe):
            return super().read_source(folder, _for_clip(folder, recipe))
        filled = fill_recipe(recipe, settings)
        cut = None if "truncate_dim" in recipe.overrides else settings.dimensions
        return SourceSettings(
            filled,
            settings.transformer,
            lowercase=settings.lowercase,
            layers=settings.layers,
            dimensions=cut,
            normalizes=settings.normalize.value,
        )

    def add_layers(self, settings: SourceSettings, *, trust: Trust) -> None:
        """Load the dense layers; each must accept the width of the one before."""
        # sentence-transformers cuts vectors after its modules, Normalize included.
        self._dimensions, self._cuts_last = settings.dimensions, settings.normalizes
        width = int(self.config.hidden_size) * len(self.modes)
        for layer in settings.layers:
            if layer is None:
                self.layers.append(Normalize())
                continue
            if layer.in_features != width:
                raise ExportError(
                    f"{layer.folder.name}/config.json: in_features is {layer.in_features}, but "
                    f"{' and '.join(self.modes)} pooling returns vectors of {width}",
                    remedy="check that the files of the source match",
                )
            self.layers.append(DenseLayer(layer, trust=trust))
            width = layer.out_features
        self.layers.eval()

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return one vector per row."""
        if self.config.model_type == CLIP_TEXT:
            vectors: torch.Tensor = answer.text_embeds
            return functional.normalize(vectors, p=2.0, dim=1) if self.normalize else vectors
        states = answer.last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        pooled = [_pool(mode, states, mask, attention_mask) for mode in self.modes]
        vectors = self.layers(pooled[0] if len(pooled) == 1 else torch.cat(pooled, dim=1))
        # A slice that keeps all values would still change the names in the graph, and its digest.
        if self._dimensions is not None and not self._cuts_last:
            vectors = vectors[:, : self._dimensions]
        if self.normalize:
            vectors = functional.normalize(vectors, p=2.0, dim=1)
        if self._dimensions is not None and self._cuts_last:
            vectors = vectors[:, : self._dimensions]
        return vectors


def _for_clip(folder: Path, recipe: TextRecipe) -> TextRecipe:
    """Return the recipe with CLIP's length if the source is a CLIP model, which pools and projects itself."""
    positions = clip_positions(folder)
    if positions is None:
        return recipe
    if isinstance(recipe, TextEmbeddingRecipe) and recipe.pooling is not None:
        raise FieldError(
            ("recipe", "pooling"),
            "a CLIP model has its own pooling and projection",
            remedy="remove `pooling`",
        )
    return recipe.model_copy(update={"max_length": recipe.max_length or positions})


def _pool(
    mode: PoolingMode, states: torch.Tensor, mask: torch.Tensor, attention_mask: torch.Tensor
) -> torch.Tensor:
    """Pool the tokens that are not padding, which is on the right."""
    if mode == "cls":
        return states[:, 0]
    if mode == "max":
        return states.masked_fill(mask == 0, torch.finfo(states.dtype).min).amax(dim=1)
    if mode == "lasttoken":
        last = (attention_mask.sum(dim=1) - 1).clamp(min=0)
        return states.gather(1, last.view(-1, 1, 1).expand(-1, 1, states.shape[2])).squeeze(1)
    if mode == "weightedmean":
        mask = mask * torch.arange(1, states.shape[1] + 1, dtype=states.dtype).view(1, -1, 1)
    total, count = (states * mask).sum(dim=1), mask.sum(dim=1).clamp(min=1e-9)
    return total / (count.sqrt() if mode == "mean_sqrt_len_tokens" else count)
