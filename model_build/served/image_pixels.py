"""Image files to the pixels that a model takes, in Triton's Python backend, with Pillow and NumPy.

preparation.json beside this file says how: sizes and crops one after the other, the filter, and what becomes
of each value. Images are turned as their camera says, and are read as RGB.
"""

from __future__ import annotations

import io
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
"""Others can start programs, or read other files."""
MOST_PIXELS = 1 << 26
"""Of a scaled image: one that is a thousand times as wide as high grows as it is scaled."""
THREADS = min(4, os.cpu_count() or 1)


class TritonPythonModel:
    """What Triton calls."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read how images are prepared; one that would fill the memory is an error, not a warning."""
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        file = Path(args["model_repository"]) / args["model_version"] / "preparation.json"
        self.preparation = json.loads(file.read_text())
        self.pool = ThreadPoolExecutor(THREADS)  # Pillow decodes and scales outside Python's lock

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response for each request; a request that cannot be read spares its neighbours."""
        files = [
            pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy().reshape(-1) for request in requests
        ]
        prepared = list(self.pool.map(self.read, [file for rows in files for file in rows]))
        responses, begin = [], 0
        for rows in files:
            found = prepared[begin : begin + len(rows)]
            begin += len(rows)
            problem = next((item for item in found if isinstance(item, str)), None)
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("pixel_values", np.stack(found))])
                if problem is None
                else pb_utils.InferenceResponse(error=pb_utils.TritonError(problem))
            )
        return responses

    def read(self, file: bytes) -> np.ndarray | str:
        """The pixels of one file, or what is wrong with it as a str."""
        try:
            with Image.open(io.BytesIO(file), formats=FORMATS) as image:
                upright = ImageOps.exif_transpose(image).convert("RGB")
            return prepare(upright, self.preparation)
        except UnidentifiedImageError:  # whose words name an object in memory
            return f"IMAGE is none of {', '.join(FORMATS)}"
        except Exception as error:  # every format's decoder raises what it likes
            return f"IMAGE cannot be read as {', '.join(FORMATS)}: {error}"


def prepare(image: Image.Image, preparation: Mapping[str, Any]) -> np.ndarray:
    """Scale and crop an image, then make numbers of it: channels, rows, columns."""
    for step in preparation["geometry"]:
        if "crop" in step:
            image = centre_of(image, *step["crop"], rounds=step.get("rounds", False))
        else:
            size = step.get("resize") or size_by_shorter(image, step["shorter"])
            if size[0] * size[1] > MOST_PIXELS:
                raise ValueError(f"scaled from {image.size} to {size[::-1]} pixels it would fill the memory")
            image = image.resize((size[1], size[0]), resample=preparation["resample"])
    pixels = np.asarray(image).transpose(2, 0, 1)
    scale, mean, deviation = (preparation[name] for name in ("scale", "mean", "deviation"))
    if scale is not None:
        pixels = pixels * np.float64(scale)
    pixels = pixels.astype(np.float32)
    if mean is not None:
        shape = (3, 1, 1)
        pixels = (pixels - np.array(mean, np.float32).reshape(shape)) / np.array(
            deviation, np.float32
        ).reshape(shape)
    return np.ascontiguousarray(pixels)


def size_by_shorter(image: Image.Image, shorter: int) -> tuple[int, int]:
    """Height and width in the image's own proportion, whose smaller is given."""
    longer = int(shorter * max(image.size) / min(image.size))
    return (longer, shorter) if image.width <= image.height else (shorter, longer)


def centre_of(image: Image.Image, height: int, width: int, *, rounds: bool) -> Image.Image:
    """The middle of an image; what lies beyond its edges is black. `rounds` halves to even, else down."""
    margins = [(image.width - width) / 2, (image.height - height) / 2]
    left, top = (round(margin) if rounds else math.floor(margin) for margin in margins)
    return image.crop((left, top, left + width, top + height))
