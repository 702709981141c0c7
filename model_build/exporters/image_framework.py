"""An image model with its image processor, in the framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from model_build.errors import ExportError, FieldError
from model_build.exporters.framework import Framework, require_numbers
from model_build.exporters.heads import Head, head_of
from model_build.exporters.image_preparation import ImageProcessor
from model_build.exporters.loading import load_model, quiet
from model_build.library_errors import brief
from model_build.sources import FetchedSource
from model_build.sources.settings_files import read_settings_file
from tritonstack.files.model.fields import UNTRUSTED, Trust
from tritonstack.files.model.recipes import ImageRecipe

Array = NDArray[Any]
PIXELS = "pixel_values"


class PixelMaker(Protocol):
    """Prepares images as a framework does."""

    def pixels(self, images: Iterable[bytes]) -> Array:
        """Return the framework's pixels for image files."""

    def shape(self) -> tuple[int, ...]:
        """Return channels, height, and width, which must not depend on the image."""

    def preparation(self) -> Mapping[str, Any]:
        """Return the content of preparation.json for the served step."""


@dataclass(frozen=True)
class LoadedImages:
    """A model with its head, what prepares its images, and the tensors of the source that it does not use."""

    head: Head
    processor: PixelMaker
    unused: tuple[str, ...]


class ImageFramework(Framework):
    """The model, its image processor, and its outputs."""

    def __init__(
        self,
        *,
        source: FetchedSource,
        recipe: ImageRecipe,
        trust: Trust = UNTRUSTED,
        allow_unused: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        loaded = self._load(source.folder, recipe, trust, allow_unused)
        self._processor = loaded.processor
        self.preparation = self._processor.preparation() if recipe.input == "image" else None
        shape = self._processor.shape()
        # Batch above 1, because the exporter treats size 1 as a constant.
        example = {PIXELS: np.zeros((2, *shape), dtype=np.float32)}
        super().__init__(loaded.head, example=example, axes={0: "batch"}, unused_weights=loaded.unused)
        try:
            require_numbers(self.answer(self.example))
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(
                f"the model fails on pixels of shape {list(shape)}: {brief(error)}",
                remedy="check that config.json and preprocessor_config.json match",
            ) from error

    def _load(
        self, folder: Path, recipe: ImageRecipe, trust: Trust, allow_unused: Mapping[str, str]
    ) -> LoadedImages:
        """Load the model and its image processor."""
        _reject_timm(folder)
        head_class: Any = head_of(recipe)
        with quiet():
            loaded = load_model(folder, head_class, trust=trust, allow_unused=allow_unused)
            processor = ImageProcessor(folder, trust=trust)
        return LoadedImages(head_class(loaded.model, recipe), processor, loaded.unused)

    @property
    def description(self) -> str:
        """The size of its images."""
        return f"images of {'x'.join(map(str, self.example[PIXELS].shape[1:]))}"

    def pixels(self, images: Iterable[bytes]) -> dict[str, Array]:
        """Return the framework's pixels for image files."""
        return {PIXELS: self._processor.pixels(images)}

    def random_pixels(self, random: np.random.Generator, *, batch: int) -> dict[str, Array]:
        """Return random pixels of the model's size."""
        shape = (batch, *self.example[PIXELS].shape[1:])
        return {PIXELS: random.standard_normal(shape, dtype=np.float32)}

    def other_example(self) -> dict[str, Array]:
        """Return an example with another batch size."""
        return self.random_pixels(np.random.default_rng(0), batch=3)


def _reject_timm(folder: Path) -> None:
    """Name the option for timm models; transformers would ask for packages of its own."""
    config = read_settings_file(folder, "config.json")
    if "architecture" in config and "model_type" not in config:
        raise FieldError(
            ("recipe",),
            f"config.json describes a timm model ({config['architecture']}), not a transformers model",
            remedy="set `library: timm` in the recipe",
        )
