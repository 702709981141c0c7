"""Check a TorchScript file before PyTorch loads it.

A TorchScript file is a zip archive of a program and tensors. PyTorch's reader for it runs no pickle code, but
the program runs, partly while loading, and three of its operators access files or other machines. Programs
that use them are rejected.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from model_build.errors import ExportError, UnsafeWeightsError, UnsupportedModelError
from model_build.foreign_formats import EXPORTED, KERAS, foreign_format

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
