"""Files that do not belong in a model archive: traces of tools, pickles, and very large files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from model_build.errors import LayoutError, SurprisingSettingError
from model_build.linting.findings import Finding, in_file
from tritonstack.base.files import folder_bytes

TRACES = frozenset(
    {
        ".DS_Store",
        ".git",
        ".gitattributes",
        ".gitignore",
        ".idea",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".pytest_cache",
        ".venv",
        ".vscode",
        "Thumbs.db",
        "__MACOSX",
        "__pycache__",
        "desktop.ini",
    }
)
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
_SIGN_OF_MAC = "._"
LARGE_BYTES = 10 << 30
"""A larger repository may take minutes to unpack, with gzip at about 100 MB/s."""


def is_trace(name: str) -> bool:
    """Return whether a tool or an operating system left a file."""
    return name in TRACES or name.startswith(_SIGN_OF_MAC)


def trace_findings(root: Path, shown: Path, *, chosen: bool) -> Iterator[Finding]:
    """Yield traces of tools; a folder at the top level counts as a model, unless one is `chosen`."""
    for folder, folders, files in os.walk(root):
        place = Path(folder).relative_to(root)
        for name in sorted([*folders, *files]):
            if not is_trace(name):
                continue
            if folder == str(root) and name in folders and not chosen:
                yield in_file(
                    "error",
                    LayoutError.code,
                    shown / name,
                    f"the folder {name} counts as a model folder: a single-model endpoint starts only with "
                    "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME, and a multi-model endpoint may load this folder",
                    f"pack without it: `tar --exclude {name} ...`",
                )
            else:
                yield in_file(
                    "warning",
                    LayoutError.code,
                    shown / place / name,
                    "a trace of a tool, which no model needs",
                    f"pack without it: `tar --exclude {name} ...`"
                    + ("; on macOS, set COPYFILE_DISABLE=1" if name.startswith(_SIGN_OF_MAC) else ""),
                )
        folders[:] = [name for name in folders if not is_trace(name)]


def size_findings(root: Path, shown: Path) -> Iterator[Finding]:
    """Yield a repository that takes long to download and unpack."""
    size = folder_bytes(root)
    if size > LARGE_BYTES:
        yield in_file(
            "warning",
            SurprisingSettingError.code,
            shown,
            f"{size >> 30} GiB: each instance downloads and unpacks them before it starts",
            "set ModelDataDownloadTimeoutInSeconds (up to 3600) and VolumeSizeInGB of the production "
            "variant, or deploy uncompressed model data",
        )


def pickle_findings(root: Path, shown: Path) -> Iterator[Finding]:
    """Yield pickles, which run code and depend on versions."""
    for file in sorted(root.rglob("*")):
        if file.suffix.lower() in _PICKLES and file.is_file():
            yield in_file(
                "warning",
                SurprisingSettingError.code,
                shown / file.relative_to(root),
                "a pickle: loading it can run any code, and needs the versions of Python and of the "
                "libraries that wrote it",
                "save weights as safetensors or ONNX, or pin the same versions in the model's environment",
            )
