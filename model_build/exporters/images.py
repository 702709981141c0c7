"""An image model with its image processor, in the framework, and the settings of the served step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import PIL.Image
import transformers
from transformers.image_processing_backends import PilBackend
from transformers.image_utils import load_image

from model_build.data import Array, FrameworkFiles
from model_build.errors import ExportError, FieldError
from model_build.exporters.framework import Framework, require_numbers
from model_build.exporters.heads import Head, head_of
from model_build.exporters.loading import load_model, quiet
from model_build.library_errors import brief, known_help
from model_build.sources.base import read_settings_file
from tritonstack.files.model.fields import Trust

# Image processors in the framework, and their settings as those of the served step. The served step resizes,
# crops, rescales, and normalizes. A processor with any other behavior is rejected, naming the method; two
# architectures differ only in sizes.

METHODS = ("_preprocess", "resize", "center_crop", "rescale", "normalize", "process_image")
REMEDY = "set `input: pixels`, and prepare the images in the client"
Geometry = list[dict[str, Any]]


class ImageProcessor:
    """An image processor of transformers."""

    def __init__(self, folder: Path, *, trust: Trust) -> None:
        try:
            # The Pillow backend, as in the served step.
            auto_class: Any = transformers.AutoImageProcessor
            self._processor = auto_class.from_pretrained(
                folder, local_files_only=True, trust_remote_code=trust.remote_code is not None, backend="pil"
            )
        except Exception as error:
            raise ExportError(
                f"transformers cannot load the image processor: {type(error).__name__}: {brief(error)}",
                remedy=known_help(error)
                or "the source needs preprocessor_config.json of a transformers model",
            ) from error

    def pixels(self, images: Iterable[bytes]) -> Array:
        """Return the framework's pixels for image files."""
        opened = [load_image(PIL.Image.open(BytesIO(image))) for image in images]
        pixels = self._processor(opened, return_tensors="np")["pixel_values"]
        return np.ascontiguousarray(pixels, dtype=np.float32)

    def shape(self) -> tuple[int, ...]:
        """Return channels, height, and width, which must not depend on the image."""
        files = [encoded(np.zeros(size, np.uint8)) for size in ((90, 120, 3), (200, 80, 3))]
        wide, tall = (self.pixels([file]).shape[1:] for file in files)
        if wide != tall:
            raise ExportError(
                f"the image processor returns {list(wide)} for one image and {list(tall)} for another; "
                "a batch needs one size",
                remedy="set `size` or `do_center_crop` in the model's preprocessor_config.json",
            )
        return tuple(wide)

    def preparation(self) -> Mapping[str, Any]:
        """Return the content of preparation.json for the served step."""
        return preparation_of(self._processor)


def encoded(pixels: Array) -> bytes:
    """Encode rows, columns, and colors as an image file."""
    file = BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def preparation_of(processor: Any) -> Mapping[str, Any]:
    """Return the content of preparation.json for the served step."""
    kind = type(processor).__name__.removesuffix("Pil").removesuffix("Fast")
    geometries = {"ConvNextImageProcessor": _convnext_sizes, "LevitImageProcessor": _levit_sizes}
    if kind not in geometries:
        _check_methods(processor, kind)
    if processor.do_pad:
        raise _export_error(kind, "pads images")
    geometry = geometries.get(kind, _sizes)(processor, kind) if processor.do_resize else []
    if processor.do_center_crop:
        geometry.append({"crop": [processor.crop_size.height, processor.crop_size.width]})
    return {
        "geometry": geometry,
        "resample": int(processor.resample if processor.resample is not None else 2),
        "scale": processor.rescale_factor if processor.do_rescale else None,
        "mean": _each_channel(processor.image_mean) if processor.do_normalize else None,
        "deviation": _each_channel(processor.image_std) if processor.do_normalize else None,
    }


def _check_methods(processor: Any, kind: str) -> None:
    for method in METHODS:
        if getattr(type(processor), method, None) is not getattr(PilBackend, method):
            raise _export_error(kind, f"has a custom {method.removeprefix('_').replace('_', ' ')}")


def _sizes(processor: Any, kind: str) -> Geometry:
    size = processor.size
    if size.shortest_edge and not size.longest_edge:
        return [{"shorter": size.shortest_edge}]
    if size.height and size.width:
        return [{"resize": [size.height, size.width]}]
    raise _export_error(kind, f"resizes images to {dict(size)}")


def _convnext_sizes(processor: Any, kind: str) -> Geometry:
    """Small images are resized slightly above the crop size, large ones to the crop size."""
    edge = processor.size.shortest_edge
    if not edge:
        raise _export_error(kind, f"resizes images to {dict(processor.size)}")
    if edge >= 384:
        return [{"resize": [edge, edge]}]
    return [{"shorter": int(edge / processor.crop_pct)}, {"crop": [edge, edge]}]


def _levit_sizes(processor: Any, kind: str) -> Geometry:
    """Resize slightly above the crop size."""
    edge = processor.size.shortest_edge
    return [{"shorter": int((256 / 224) * edge)}] if edge else _sizes(processor, kind)


def _each_channel(value: Any) -> list[float]:
    return [float(item) for item in value] if isinstance(value, list | tuple) else [float(value)] * 3


def _export_error(kind: str, reason: str) -> ExportError:
    return ExportError(f"the model's {kind} {reason}, which the served step does not support", remedy=REMEDY)


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

    def __init__(self, files: FrameworkFiles) -> None:
        loaded = self._load(files)
        self._processor = loaded.processor
        self.preparation = self._processor.preparation() if files.recipe.input == "image" else None
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

    def _load(self, files: FrameworkFiles) -> LoadedImages:
        """Load the model and its image processor."""
        _reject_timm(files.folder)
        head_class: Any = head_of(files.recipe)
        with quiet():
            loaded = load_model(files, head_class)
            processor = ImageProcessor(files.folder, trust=files.trust)
        return LoadedImages(head_class(loaded.model, files.recipe), processor, loaded.unused)

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
