"""Recognize and check files of models without loading them."""

from __future__ import annotations

import pickletools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from model_build.errors import ExportError, ModelImportError, UnsafeWeightsError, UnsupportedModelError

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


# Check a TorchScript file before PyTorch loads it. A TorchScript file is a zip archive of a program and
# tensors. PyTorch's reader for it runs no pickle code, but the program runs, partly while loading, and three
# of its operators access files or other machines. Programs that use them are rejected.

_REACHING = re.compile(
    r"\b(?:torch\.(?:save|from_file)|rpc_(?:sync|async|remote)|ops\.(?!prim\b|aten\b)\w+\.\w+)\b"
)
_KNOWN_OPERATORS = re.compile(
    r"ops\.(?:quantized|quantization|_quantized|prepacked|mkldnn_prepacked|sparse|torchvision|image)\."
)
PICKLE_MAGIC = b"\x80"
_USE_ENTRY = (
    "set `entry: <file>.py:<function>` that builds the module and loads its weights from safetensors; "
    "or save it with torch.jit.trace(...).save(file)"
)


def check_torchscript(file: Path) -> None:
    """Raise ExportError if a file is not TorchScript, UnsafeWeightsError if its program accesses files."""
    if not zipfile.is_zipfile(file):
        raise _not_torchscript(file)
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            if not any(name.endswith("/constants.pkl") for name in names):
                raise _not_torchscript(file)
            reaching = sorted(set(_reaching(archive, names)))
    except zipfile.BadZipFile as error:
        raise UnsupportedModelError(
            f"{file.name} is corrupt: {error}", remedy="fetch or copy it again"
        ) from error
    if reaching:
        raise UnsafeWeightsError(
            f"the program in {file.name} uses {', '.join(reaching)}, which access files or other machines",
            remedy="save the module without them, or use a trusted source through `entry`",
        )


def _reaching(archive: zipfile.ZipFile, names: list[str]) -> Iterator[str]:
    for name in names:
        if "/code/" in name and name.endswith(".py"):
            for operator in _REACHING.findall(archive.read(name).decode("utf-8", errors="replace")):
                if not _KNOWN_OPERATORS.match(operator):
                    yield operator


def _not_torchscript(file: Path) -> ExportError:
    foreign = foreign_format(file)
    if foreign is not None and foreign.kind in (EXPORTED, KERAS):
        return UnsupportedModelError(f"{file.name} is {foreign.kind}, not TorchScript", remedy=foreign.remedy)
    with file.open("rb") as stream:
        begin = stream.read(4)
    is_pickle = zipfile.is_zipfile(file) or begin[:1] == PICKLE_MAGIC
    content = (
        "a pickle of weights or of a module (torch.save)" if is_pickle else "a file not saved by torch.jit"
    )
    return UnsupportedModelError(
        f"{file.name} is {content}, not TorchScript; `trust` does not change that",
        remedy=_USE_ENTRY,
    )


LARGEST = 256 << 20


def names_in_pickle(file: Path, *, shown: Path) -> frozenset[str]:
    """Return all strings of a pickle, module and class names among them; nothing of it is run."""
    names: set[str] = set()
    if file.stat().st_size > LARGEST:
        raise ModelImportError(
            f"{shown}: the pickle is larger than {LARGEST >> 20} MiB, and is not read",
            remedy="save the weights in another format",
        )
    try:
        for operation, argument, _ in pickletools.genops(file.read_bytes()):
            if operation.name == "GLOBAL":
                names |= set(str(argument).split(" "))
            elif isinstance(argument, str):
                names.add(argument)
    except Exception as error:
        raise ModelImportError(f"{shown}: not a pickle: {error}", remedy="export the model again") from error
    return frozenset(names)
