"""A timm model with its image transform, in the framework."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_build.errors import ExportError, FieldError
from model_build.exporters.image_framework import ImageFramework, LoadedImages
from model_build.exporters.timm_models.heads import TimmClassification, TimmEmbedding
from model_build.exporters.timm_models.importing import import_timm
from model_build.exporters.timm_models.loading import load_model, read_config
from model_build.exporters.timm_models.preparation import TimmProcessor
from model_build.sources import FetchedSource
from tritonstack.files.model.fields import Trust
from tritonstack.files.model.recipes import ImageClassificationRecipe, ImageEmbeddingRecipe, ImageRecipe

IMAGENET_TAG, IMAGENET_CLASSES = "in1k", 1000


class TimmFramework(ImageFramework):
    """A model of timm."""

    def __init__(
        self,
        *,
        source: FetchedSource,
        recipe: ImageRecipe,
        trust: Trust,
        allow_unused: Mapping[str, str],
        cache_dir: Path,
    ) -> None:
        self._cache_dir = cache_dir
        super().__init__(source=source, recipe=recipe, trust=trust, allow_unused=allow_unused)

    def _load(
        self, folder: Path, recipe: ImageRecipe, trust: Trust, allow_unused: Mapping[str, str]
    ) -> LoadedImages:
        """Load the model as timm does, with all weights."""
        config = read_config(folder)
        if allow_unused:
            raise FieldError(
                ("allow_unused_weights",),
                "timm loads a source only if the model uses all of its tensors",
                remedy="remove it",
            )
        timm = import_timm(self._cache_dir)
        model = load_model(timm, folder, config, trust)
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
