"""A timm model with its image transform, in the framework."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_build.errors import ExportError, FieldError
from model_build.exporters.image_framework import ImageFramework, LoadedImages
from model_build.exporters.loading import quiet
from model_build.exporters.timm_models.heads import TimmClassification, TimmEmbedding
from model_build.exporters.timm_models.importing import import_timm
from model_build.exporters.timm_models.preparation import TimmProcessor
from model_build.library_errors import brief, known_help
from model_build.sources import FetchedSource
from tritonstack.spec.models.model_fields import Trust
from tritonstack.spec.models.recipes import ImageClassificationRecipe, ImageEmbeddingRecipe, ImageRecipe

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
BELONG = "check that config.json and the weights match; timm's `save_for_hf` writes both"
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
        config = _read_config(folder)
        if allow_unused:
            raise FieldError(
                ("allow_unused_weights",),
                "timm loads a source only if the model uses all of its tensors",
                remedy="remove it",
            )
        timm = import_timm(self._cache_dir)
        model = _load_model(timm, folder, config, trust)
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


def _read_config(folder: Path) -> Mapping[str, Any]:
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ExportError(
            "the source has no config.json", remedy="save the model with timm's `save_for_hf`"
        ) from None
    except (OSError, ValueError) as error:
        raise ExportError(
            f"config.json cannot be read as JSON: {error}", remedy="fetch or copy the file again"
        ) from error
    if not isinstance(config, dict) or not isinstance(config.get("architecture"), str):
        raise FieldError(
            ("recipe", "library"),
            "config.json describes no timm model: it has no `architecture`",
            remedy="for a transformers model, omit `library: timm`; else save it with timm's `save_for_hf`",
        )
    return config


def _load_model(timm: Any, folder: Path, config: Mapping[str, Any], trust: Trust) -> Any:
    architecture = config["architecture"]
    if not timm.is_model(architecture):
        raise ExportError(
            f"timm {timm.__version__} has no architecture {architecture!r}",
            remedy="correct `architecture` in config.json, or export the model for the recipe onnx",
        )
    # Not the file that timm would choose: it prefers some pickles to safetensors.
    overlay = {"source": "timm", "file": str(_weights_of(folder, trust)), "custom_load": False}
    try:
        with quiet():
            model = timm.create_model(f"local-dir:{folder}", pretrained=True, pretrained_cfg_overlay=overlay)
    except Exception as error:
        raise ExportError(
            f"timm cannot load the model: {type(error).__name__}: {brief(error)}",
            remedy=known_help(error) or BELONG,
        ) from error
    return model.float().eval()


def _weights_of(folder: Path, trust: Trust) -> Path:
    names = WEIGHTS if trust.pickle is not None else WEIGHTS[:1]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise ExportError(
        f"the source has no {' or '.join(names)}", remedy="save the model with timm's `save_for_hf`"
    )


def _labels_of(timm: Any, model: Any) -> tuple[str, ...]:
    """Return the labels that config.json names, else those of ImageNet for a model trained on it."""
    config = model.pretrained_cfg
    names = config.get("label_names")
    if isinstance(names, dict):
        names = [names[key] for key in sorted(names, key=int)]
    trained_on = str(config.get("tag") or "").rpartition("_")[2]
    if names is None and trained_on == IMAGENET_TAG and model.num_classes == IMAGENET_CLASSES:
        names = timm.data.ImageNetInfo().label_descriptions()
    labels = tuple(map(str, names or ()))
    if labels and len(labels) != model.num_classes:
        raise ExportError(
            f"config.json: expected {model.num_classes} label_names, got {len(labels)}",
            remedy="correct label_names in the model's config.json",
        )
    return labels
