"""Heads with vectors: per token, per text, and per image; the towers of CLIP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch.nn import functional

from model_build.errors import ExportError, FieldError, UnsupportedModelError
from model_build.exporters.heads.base import Head, SourceSettings, TextHead, at_tokens
from model_build.exporters.sentence_settings import Dense, fill_recipe, read_settings
from model_build.sources.base import read_settings_file
from tritonstack.files.model.fields import Trust
from tritonstack.files.model.recipes import (
    FeatureExtractionRecipe,
    ImageEmbeddingRecipe,
    PoolingMode,
    TextEmbeddingRecipe,
    TextRecipe,
)

_NAMES = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "LeakyReLU", "ELU", "Mish", "Softplus")
ACTIVATIONS: Mapping[str, type[torch.nn.Module]] = {name: getattr(torch.nn, name) for name in _NAMES}
"""Supported activations by name, with default arguments, as in sentence-transformers."""
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"


class DenseLayer(torch.nn.Module):
    """Load the layer with its weights."""

    def __init__(self, dense: Dense, *, trust: Trust) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(dense.in_features, dense.out_features, bias=dense.bias)
        self.is_residual = dense.residual
        if dense.residual and dense.in_features != dense.out_features:
            self.residual = torch.nn.Linear(dense.in_features, dense.out_features, bias=False)
        self.activation = _activation(dense)
        try:
            self.load_state_dict(_weights(dense, trust))
        except RuntimeError as error:
            raise ExportError(
                f"the weights in {dense.folder.name} do not match its layer: {' '.join(str(error).split())}",
                remedy="check that its config.json and weights match",
            ) from error

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the layer's output."""
        answer: torch.Tensor = self.activation(self.linear(vectors))
        if not self.is_residual:
            return answer
        return answer + (self.residual(vectors) if hasattr(self, "residual") else vectors)


def _activation(dense: Dense) -> torch.nn.Module:
    package, _, name = dense.activation.rpartition(".")
    if package.partition(".")[0] != "torch" or name not in ACTIVATIONS:
        raise ExportError(
            f"{dense.folder.name}/config.json: unknown activation_function {dense.activation!r}; allowed: "
            f"torch.nn's {', '.join(ACTIVATIONS)}",
            remedy="use a recipe of kind python",
        )
    return ACTIVATIONS[name]()


_FETCH_AGAIN = "fetch or save the file again; it is damaged or incomplete"


def _weights(dense: Dense, trust: Trust) -> Any:
    if (dense.folder / SAFE).is_file():
        try:
            return load_file(dense.folder / SAFE)
        except (SafetensorError, OSError) as error:
            raise ExportError(
                f"{dense.folder.name}/{SAFE} cannot be read: {error}", remedy=_FETCH_AGAIN
            ) from error
    if trust.pickle is not None and (dense.folder / PICKLED).is_file():
        try:
            return torch.load(dense.folder / PICKLED, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged pickle raises anything
            reason = " ".join(str(error).split())[:200]
            raise ExportError(
                f"{dense.folder.name}/{PICKLED} cannot be read: {reason}", remedy=_FETCH_AGAIN
            ) from error
    raise ExportError(
        f"{dense.folder.name} has no {SAFE} for its dense layer",
        remedy=f"save the model again with sentence-transformers, which writes {SAFE}; {PICKLED} needs "
        "`trust: {pickle: <reason>}`",
    )


POOLER = ("pooler",)
"""A pooling layer that some architectures add, which nothing here reads."""


def encoder_class(config: Any) -> Any:
    """Return the encoder-only class if transformers has one, else the class of the whole model."""
    encoders: Any = transformers.AutoModelForTextEncoding
    return encoders if type(config) in encoders._model_mapping else transformers.AutoModel


def encoder_of(model: Any) -> Any:
    """Return the encoder of an encoder-decoder model; any other model unchanged."""
    return model.get_encoder() if getattr(model.config, "is_encoder_decoder", False) else model


class FeatureExtraction(TextHead):
    """The encoder, unchanged."""

    task = "feature extraction"
    token_tensors = ("attention_mask",)
    outputs = ("last_hidden_state",)
    unused_weights = POOLER

    def __init__(self, encoder: torch.nn.Module, recipe: FeatureExtractionRecipe) -> None:
        super().__init__(encoder_of(encoder), recipe)

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the class without a head."""
        return encoder_class(config)

    def finish(self, answer: Any, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the last layer's vectors."""
        return at_tokens(answer.last_hidden_state, attention_mask)


CLIP, CLIP_TEXT = "clip", "clip_text_model"
USUAL_POSITIONS = 77


def text_tower(model: Any) -> Any:
    """Return the text model of CLIP with its projection."""
    tower: Any = transformers.CLIPTextModelWithProjection(model.config.text_config)
    tower.text_model, tower.text_projection = model.text_model, model.text_projection
    return tower


def image_tower(model: Any) -> Any:
    """Return the image model of CLIP with its projection."""
    tower: Any = transformers.CLIPVisionModelWithProjection(model.config.vision_config)
    tower.vision_model, tower.visual_projection = model.vision_model, model.visual_projection
    return tower


def clip_positions(folder: Path) -> int | None:
    """Return the most tokens of a text if the source is a CLIP model; None for any other."""
    config = read_settings_file(folder, "config.json")
    if config.get("model_type") != CLIP:
        return None
    return int((config.get("text_config") or {}).get("max_position_embeddings", USUAL_POSITIONS))


class ImageEmbedding(Head):
    """The image model of CLIP, its projection, and normalization."""

    task = "image embedding"
    outputs = ("embedding",)
    two_towers = (CLIP,)

    def __init__(self, encoder: torch.nn.Module, recipe: ImageEmbeddingRecipe) -> None:
        super().__init__(encoder, recipe)
        self.normalize = recipe.normalize

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the class of the whole model."""
        if config.model_type != CLIP:
            raise UnsupportedModelError(
                f"image-embedding needs a CLIP model; config.json describes a {config.model_type} model",
                remedy="choose a CLIP model, or a timm model with `library: timm`; for another model, export "
                "its vectors to ONNX and use the recipe onnx with `input: image`",
            )
        return transformers.AutoModel

    @classmethod
    def part_of(cls, model: Any) -> Any:
        """Return the image model."""
        return image_tower(model)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return one vector per image."""
        vectors: torch.Tensor = self.encoder(pixel_values=pixel_values).image_embeds
        return functional.normalize(vectors, p=2.0, dim=1) if self.normalize else vectors


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
