"""Recognize models in formats that no recipe reads, and say how to convert them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import NamedTuple

SAVED_MODEL = "saved_model.pb"
EXPORTED, KERAS = "a program of torch.export", "a Keras model"
TO_ONNX = (
    "`m = keras.models.load_model({file!r}); m.export('model.onnx', format='onnx', "
    "input_signature=[keras.InputSpec(shape=i.shape, dtype=i.dtype) for i in m.inputs])` (Keras 3.8 or later)"
)
TENSORFLOW = "`python -m tf2onnx.convert --saved-model {file} --output model.onnx`"
TORCH_EXPORT = "`torch.onnx.export(torch.export.load({file!r}), dynamo=True).save('model.onnx')`"
THEN = "; then `tritonstack new model NAME --recipe onnx --from model.onnx`"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_RECIPES = {
    ".onnx": "onnx",
    ".pt": "torchscript",
    ".ubj": "trees",
    ".json": "trees",
    ".txt": "trees",
    ".joblib": "scikit-learn",
    ".pkl": "scikit-learn",
}


class ForeignFormat(NamedTuple):
    """What a file or folder is, and how to get from there to a recipe."""

    kind: str
    remedy: str


def foreign_format(path: Path) -> ForeignFormat | None:
    """Return what a file or folder is if it is a model of another library; None if it is not recognized."""
    return _folder_format(path) if path.is_dir() else _file_format(path)


def _folder_format(folder: Path) -> ForeignFormat | None:
    saved = min(folder.glob(f"**/{SAVED_MODEL}"), default=None)
    if saved is not None:
        return ForeignFormat("a TensorFlow SavedModel", TENSORFLOW.format(file=saved.parent) + THEN)
    if (folder / "config.json").is_file():
        return ForeignFormat(
            "a Hugging Face folder",
            f"`tritonstack new model NAME --recipe text-embedding --from {folder}`, or with another recipe",
        )
    return None


def _file_format(file: Path) -> ForeignFormat | None:
    with file.open("rb") as stream:
        begin = stream.read(len(_HDF5))
    names = _names(file)
    if begin == _HDF5 or {"config.json", "model.weights.h5"} <= names:
        return ForeignFormat(KERAS, f"convert it: {TO_ONNX.format(file=str(file))}{THEN}")
    if any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names):
        return ForeignFormat(EXPORTED, f"convert it: {TORCH_EXPORT.format(file=str(file))}{THEN}")
    recipe = _RECIPES.get(file.suffix)
    if recipe is None:
        return None
    return ForeignFormat(
        f"one {file.suffix} file", f"`tritonstack new model NAME --recipe {recipe} --from {file}`"
    )


def _names(file: Path) -> set[str]:
    """Return the names in a zip archive; nothing for other files."""
    try:
        with zipfile.ZipFile(file) as archive:
            return set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return set()
