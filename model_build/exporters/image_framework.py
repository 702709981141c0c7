"""An image model with its image processor, in the framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO
from types import MappingProxyType
from typing import Any

import numpy as np
import PIL.Image
import transformers
from numpy.typing import NDArray
from transformers.image_utils import load_image

from model_build.errors import ExportError
from model_build.exporters.framework import Framework, require_numbers
from model_build.exporters.heads import head_of
from model_build.exporters.image_preparation import preparation_of
from model_build.exporters.loading import load_model, quiet
from model_build.library_errors import brief, known_help
from model_build.sources import FetchedSource
from tritonstack.spec.models.model_fields import UNTRUSTED, Trust
from tritonstack.spec.models.recipes import ImageClassificationRecipe

Array = NDArray[Any]
PIXELS = "pixel_values"


class ImageFramework(Framework):
    """The model, its image processor, and its outputs."""

    def __init__(
        self,
        *,
        source: FetchedSource,
        recipe: ImageClassificationRecipe,
        trust: Trust = UNTRUSTED,
        allow_unused: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        head_class: Any = head_of(recipe)
        with quiet():
            loaded = load_model(source.folder, head_class, trust=trust, allow_unused=allow_unused)
            self._processor = _load_processor(source, trust=trust)
        self.preparation = preparation_of(self._processor) if recipe.input == "image" else None
        shape = self._shape()
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
        opened = [load_image(PIL.Image.open(BytesIO(image))) for image in images]
        found = self._processor(opened, return_tensors="np")[PIXELS]
        return {PIXELS: np.ascontiguousarray(found, dtype=np.float32)}

    def random_pixels(self, random: np.random.Generator, *, batch: int) -> dict[str, Array]:
        """Return random pixels of the model's size."""
        shape = (batch, *self.example[PIXELS].shape[1:])
        return {PIXELS: random.standard_normal(shape, dtype=np.float32)}

    def other_example(self) -> dict[str, Array]:
        """Return an example with another batch size."""
        return self.random_pixels(np.random.default_rng(0), batch=3)

    def _shape(self) -> tuple[int, ...]:
        """Return channels, height, and width, which must not depend on the image."""
        files = [encoded(np.zeros(size, np.uint8)) for size in ((90, 120, 3), (200, 80, 3))]
        wide, tall = (self.pixels([file])[PIXELS].shape[1:] for file in files)
        if wide != tall:
            raise ExportError(
                f"the image processor returns {list(wide)} for one image and {list(tall)} for another; "
                "a batch needs one size",
                remedy="set `size` or `do_center_crop` in the model's preprocessor_config.json",
            )
        return tuple(wide)


def encoded(pixels: Array) -> bytes:
    """Encode rows, columns, and colors as an image file."""
    file = BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def _load_processor(source: FetchedSource, *, trust: Trust) -> Any:
    try:
        # The Pillow backend, as in the served step.
        auto_class: Any = transformers.AutoImageProcessor
        return auto_class.from_pretrained(
            source.folder,
            local_files_only=True,
            trust_remote_code=trust.remote_code is not None,
            backend="pil",
        )
    except Exception as error:
        raise ExportError(
            f"transformers cannot load the image processor: {type(error).__name__}: {brief(error)}",
            remedy=known_help(error) or "the source needs preprocessor_config.json of a transformers model",
        ) from error
