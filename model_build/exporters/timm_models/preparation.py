"""timm's image transform for evaluation, and its settings as those of the served step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from transformers.image_utils import load_image

from model_build.errors import ExportError
from model_build.library_errors import brief

REMEDY = "set `input: pixels`, and prepare the images in the client with timm"
FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
"""Pillow's numbers of timm's names."""
Array = NDArray[Any]


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
