"""An image model with its image processor, in the framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model_build.errors import ExportError
from model_build.exporters.framework import Framework, require_numbers
from model_build.exporters.heads import head_of
from model_build.exporters.image_preparation import ImageProcessor
from model_build.exporters.loading import load_model, quiet
from model_build.library_errors import brief
from model_build.sources import FetchedSource
from tritonstack.spec.models.model_fields import UNTRUSTED, Trust
from tritonstack.spec.models.recipes import ImageRecipe

Array = NDArray[Any]
PIXELS = "pixel_values"


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
        head_class: Any = head_of(recipe)
        with quiet():
            loaded = load_model(source.folder, head_class, trust=trust, allow_unused=allow_unused)
            self._processor = ImageProcessor(source.folder, trust=trust)
        self.preparation = self._processor.preparation() if recipe.input == "image" else None
        shape = self._processor.shape()
        # Batch above 1, because the exporter treats size 1 as a constant.
        example = {PIXELS: np.zeros((2, *shape), dtype=np.float32)}
        head = head_class(loaded.model, recipe)
        super().__init__(head, example=example, axes={0: "batch"}, unused_weights=loaded.unused)
        try:
            require_numbers(self.answer(self.example))
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(
                f"the model fails on pixels of shape {list(shape)}: {brief(error)}",
                remedy="check that config.json and preprocessor_config.json match",
            ) from error

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
