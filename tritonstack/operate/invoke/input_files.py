"""Read files as the content of inputs: arrays, JSON, images, audio, and anything else as bytes."""

from __future__ import annotations

import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.base import files
from tritonstack.base.byte_tensors import BYTES
from tritonstack.base.errors import UsageError
from tritonstack.base.extras import require
from tritonstack.files.records.manifests import TensorSpec

Array = NDArray[Any]
LARGEST_BYTES = 2**30
"""SageMaker accepts no larger request."""
_IMAGES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"})


class RequestInputError(UsageError):
    """An input of `invoke` has an unknown name, another type or shape than the model's, or is missing; or its
    file does not exist, is damaged, or has another format. `tritonstack inspect MODEL` shows the model's
    tensors. Nothing was sent.
    """

    code = "TS912"
    title = "Input does not fit the model"


def read_input_file(file: Path, spec: TensorSpec) -> Any:
    """Return the content of a file for one input.

    A BYTES input gets the bytes of the file as they are: models with such an input decode images and audio
    themselves. Other inputs get arrays from .npy and .json, samples from .wav, and pixels from images.
    """
    raw = read_bytes(file)
    suffix = file.suffix.lower()
    if suffix == ".npy":
        return _array_of(file)
    if suffix == ".json":
        return parse_json(raw, origin=str(file))
    if spec.datatype == BYTES:
        return raw
    if suffix == ".wav" and spec.datatype in ("FP32", "FP64") and len(spec.shape) == 1:
        return _samples_of(file)
    if suffix in _IMAGES and spec.datatype == "UINT8" and len(spec.shape) == 3:
        return _pixels_of(file, spec)
    raise RequestInputError(
        f"{file} cannot become input {spec.name!r}, {spec.datatype} of shape {list(spec.shape)}",
        remedy="prepare the values as the model expects them, and pass them as .npy or .json",
    )


def read_data_file(file: Path) -> dict[str, Any]:
    """Return the inputs in an .npz or .json file by name.

    JSON may be an object of names and values, or a request in Triton's form, {"inputs": [...]}.
    """
    suffix = file.suffix.lower()
    if suffix == ".npz":
        array = _array_of(file)
        return {name: array[name] for name in array}
    if suffix != ".json":
        raise RequestInputError(
            f"{file} is neither .npz nor .json", remedy="pass a file for one input as --input NAME=@FILE"
        )
    content = parse_json(read_bytes(file), origin=str(file))
    inputs = content.get("inputs", content) if isinstance(content, dict) else None
    if isinstance(inputs, dict):
        return inputs
    if isinstance(inputs, list) and all(
        isinstance(item, dict) and {"name", "shape", "data"} <= item.keys() for item in inputs
    ):
        return {str(item["name"]): _shaped(item, file) for item in inputs}
    raise RequestInputError(
        f"{file}: expected an object of input names and values",
        remedy='write {"NAME": [[...]], ...}, or {"inputs": [{"name", "shape", "datatype", "data"}, ...]}',
    )


def parse_json(text: str | bytes, *, origin: str) -> Any:
    """Parse JSON, or raise RequestInputError."""
    try:
        return files.parse_json(text, limit_bytes=LARGEST_BYTES, pairs=_without_duplicates)
    except ValueError as error:
        raise RequestInputError(
            f"{origin}: invalid JSON ({error})",
            remedy='write numbers and lists as JSON, such as 0.5, [[1, 2], [3, 4]], or ["one", "two"]',
        ) from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate key {duplicate!r}")
    return mapping


def read_bytes(file: Path) -> bytes:
    """Return the content of a file, or raise RequestInputError."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise RequestInputError(
            f"cannot read {file}: {error.strerror}", remedy="check the path; it is relative to this folder"
        ) from error


def _array_of(file: Path) -> Any:
    """Return the array of an .npy file, or the arrays of an .npz file. Pickles are rejected."""
    read_bytes(file)
    try:
        with file.open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            return dict(loaded) if isinstance(loaded, Mapping) else loaded
    except Exception as error:  # of zipfile, zlib, and Python's tokenizer, which NumPy passes on
        raise RequestInputError(
            f"cannot read {file}: {error}",
            remedy="write it with numpy.save or numpy.savez; texts as an array of dtype str, not object",
        ) from error


def _shaped(item: Mapping[str, Any], file: Path) -> Array:
    kind = np.object_ if item.get("datatype") == BYTES else None
    try:
        return np.array(item["data"], dtype=kind).reshape(item["shape"])
    except (ValueError, TypeError) as error:
        raise RequestInputError(
            f"{file}: the data of input {item['name']!r} does not fit its shape {item['shape']} ({error})",
            remedy="correct `shape` or `data`",
        ) from error


def _samples_of(file: Path) -> Array:
    """Return the samples of PCM audio as numbers from -1 to 1, channels averaged."""
    try:
        with wave.open(str(file), "rb") as audio:
            width, channels = audio.getsampwidth(), audio.getnchannels()
            raw = audio.readframes(audio.getnframes())
        if len(raw) % (width * channels):
            raise EOFError("it ends within a sample")
    except (wave.Error, EOFError) as error:
        raise RequestInputError(
            f"cannot read {file}: {error}", remedy="convert it to PCM, for example with ffmpeg"
        ) from error
    if width == 3:
        padded = np.zeros((len(raw) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        values = padded.view("<i4")[:, 0] / 2.0**31
    elif width == 1:  # 8-bit samples are unsigned
        values = np.frombuffer(raw, np.uint8) / 128.0 - 1.0
    else:
        values = np.frombuffer(raw, f"<i{width}") / 2.0 ** (8 * width - 1)
    samples: Array = values.reshape(-1, channels).mean(axis=1).astype(np.float32)
    return samples


def _pixels_of(file: Path, spec: TensorSpec) -> Array:
    """Return the RGB pixels of an image; channels first if the model's first dimension is 3."""
    require("PIL", feature="Decoding images")
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - images only

    try:
        with Image.open(file) as image:
            pixels = np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise RequestInputError(
            f"cannot read {file} as an image: {error}", remedy="pass a JPEG, PNG, or WebP file"
        ) from error
    channels_first = spec.shape[0] == 3 and spec.shape[-1] != 3
    return np.moveaxis(pixels, -1, 0) if channels_first else pixels
