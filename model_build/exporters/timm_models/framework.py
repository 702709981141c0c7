"""A timm model with its image transform, in the framework."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import torch
from torch.nn import functional
from transformers.image_utils import load_image

from model_build.data import Array, FrameworkFiles
from model_build.errors import ExportError, FieldError
from model_build.exporters.heads.base import Head, activation_of, scores
from model_build.exporters.images import ImageFramework, LoadedImages
from model_build.exporters.timm_models.loading import import_timm, load_model, read_config
from model_build.library_errors import brief
from tritonstack.files.model.recipes import ImageClassificationRecipe, ImageEmbeddingRecipe


class TimmClassification(Head):
    """A timm model with its classifier and an activation."""

    task = "image classification"
    outputs = ("scores",)

    def __init__(
        self, encoder: torch.nn.Module, recipe: ImageClassificationRecipe, labels: tuple[str, ...]
    ) -> None:
        super().__init__(encoder, recipe)
        self._labels = labels
        self.activation = activation_of(self.config, recipe.activation)

    @property
    def config(self) -> Any:
        """The number of labels."""
        return SimpleNamespace(num_labels=self.encoder.num_classes)

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the labels of the source, if it has any."""
        return {"scores": self._labels} if self._labels else {}

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the scores of each image."""
        return scores(self.encoder(pixel_values), self.activation)


class TimmEmbedding(Head):
    """A timm model without its classifier, and normalization."""

    task = "image embedding"
    outputs = ("embedding",)

    def __init__(self, encoder: torch.nn.Module, recipe: ImageEmbeddingRecipe) -> None:
        super().__init__(encoder, recipe)
        self.normalize = recipe.normalize

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return one vector per image."""
        vectors: torch.Tensor = self.encoder(pixel_values)
        return functional.normalize(vectors, p=2.0, dim=1) if self.normalize else vectors


REMEDY = "set `input: pixels`, and prepare the images in the client with timm"
FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
"""Pillow's numbers of timm's names."""


class TimmProcessor:
    """The transform that `timm.data.create_transform` makes of a model's pretrained_cfg."""

    def __init__(self, timm: Any, model: Any) -> None:
        try:
            self._settings: Mapping[str, Any] = timm.data.resolve_model_data_config(model)
            self._transform = timm.data.create_transform(**self._settings, is_training=False)
        except Exception as error:
            raise ExportError(
                f"timm cannot prepare images for the model: {type(error).__name__}: {brief(error)}",
                remedy="check input_size, mean, std, and interpolation of pretrained_cfg in config.json",
            ) from error
        channels = self._settings["input_size"][0]
        if channels != 3:
            raise ExportError(
                f"config.json: expected images of 3 channels (RGB), got {channels}",
                remedy="choose a model for RGB images, or export it to ONNX and use the recipe onnx",
            )

    def pixels(self, images: Iterable[bytes]) -> Array:
        """Return timm's pixels for image files, turned upright as their camera says."""
        opened = [load_image(PIL.Image.open(BytesIO(image))) for image in images]
        return np.stack([self._transform(image).numpy() for image in opened])

    def shape(self) -> tuple[int, ...]:
        """Return channels, height, and width."""
        return tuple(self._settings["input_size"])

    def preparation(self) -> Mapping[str, Any]:
        """Return the content of preparation.json for the served step."""
        return timm_preparation(self._settings)


def timm_preparation(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of preparation.json for timm's settings; raise ExportError for what differs."""
    _, height, width = settings["input_size"]
    part = settings["crop_pct"]
    size = [math.floor(edge / part) for edge in (height, width)]
    mode, interpolation = settings["crop_mode"], settings["interpolation"]
    if interpolation not in FILTERS:
        raise _unsupported(f"interpolation {interpolation!r}")
    if part > 1:
        raise _unsupported(f"crop_pct {part}, which adds a border")
    if mode == "squash":
        resize: dict[str, Any] = {"resize": size}
    elif mode == "center" and size[0] == size[1]:
        resize = {"shorter": size[0]}
    else:
        raise _unsupported(f"crop_mode {mode!r} to {height}x{width} pixels")
    return {
        "geometry": [resize, {"crop": [height, width], "rounds": True}],
        "resample": FILTERS[interpolation],
        "scale": 1 / 255,
        "mean": [float(value) for value in settings["mean"]],
        "deviation": [float(value) for value in settings["std"]],
    }


def _unsupported(what: str) -> ExportError:
    return ExportError(
        f"config.json: pretrained_cfg has {what}; the served step does not support it", remedy=REMEDY
    )


IMAGENET_TAG, IMAGENET_CLASSES = "in1k", 1000


class TimmFramework(ImageFramework):
    """A model of timm."""

    def __init__(self, files: FrameworkFiles, *, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        super().__init__(files)

    def _load(self, files: FrameworkFiles) -> LoadedImages:
        """Load the model as timm does, with all weights."""
        config, recipe = read_config(files.folder), files.recipe
        if files.allow_unused:
            raise FieldError(
                ("allow_unused_weights",),
                "timm loads a source only if the model uses all of its tensors",
                remedy="remove it",
            )
        timm = import_timm(self._cache_dir)
        model = load_model(timm, files.folder, config, files.trust)
        processor = TimmProcessor(timm, model)
        if isinstance(recipe, ImageEmbeddingRecipe):
            before = set(model.state_dict())
            model.reset_classifier(0)
            unused = tuple(sorted(before - set(model.state_dict())))
            return LoadedImages(TimmEmbedding(model, recipe), processor, unused)
        assert isinstance(recipe, ImageClassificationRecipe)  # noqa: S101 - the type of all other image recipes
        if not model.num_classes:
            raise FieldError(
                ("recipe", "kind"),
                "the model of config.json has no classifier (num_classes: 0)",
                remedy="use `kind: image-embedding`, or a source with a classifier",
            )
        return LoadedImages(TimmClassification(model, recipe, _labels_of(timm, model)), processor, ())


def _labels_of(timm: Any, model: Any) -> tuple[str, ...]:
    """Return the labels that config.json names, else those of ImageNet for a model trained on it."""
    config = model.pretrained_cfg
    names = config.get("label_names")
    trained_on = str(config.get("tag") or "").rpartition("_")[2]
    if names is None and trained_on == IMAGENET_TAG and model.num_classes == IMAGENET_CLASSES:
        names = timm.data.ImageNetInfo().label_descriptions()
    labels = _in_order(names or ())
    if labels and len(labels) != model.num_classes:
        raise ExportError(
            f"config.json: expected {model.num_classes} label_names, got {len(labels)}",
            remedy="correct label_names in the model's config.json",
        )
    return labels


def _in_order(names: Any) -> tuple[str, ...]:
    """Return the names of the classes by number: timm takes a list, or a mapping of numbers."""
    if isinstance(names, dict):
        numbers = [str(number) for number in range(len(names))]
        if {*numbers} != names.keys():
            other = next(key for key in names if key not in numbers)
            raise ExportError(
                f"config.json: label_names has the key {other!r}; expected the class numbers 0 to "
                f"{len(names) - 1}",
                remedy="write label_names as a list, in the order of the classifier's outputs",
            )
        names = [names[number] for number in numbers]
    if not isinstance(names, list | tuple) or not all(isinstance(name, str | int) for name in names):
        raise ExportError(
            "config.json: expected label_names to be a list of texts, or a mapping of class numbers to texts",
            remedy="write label_names as a list, in the order of the classifier's outputs",
        )
    return tuple(map(str, names))
