"""What a build in a process sees of this machine: its own folders, and programs, read-only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tritonstack.runtime import TritonNotFoundError
from tritonstack.runtime.inside.private_root import Mount, shown
from tritonstack.runtime.installation import find_embedded
from tritonstack_local.codebuild.machines.network import PIP_CONFIGURATIONS

_SETTINGS = (*PIP_CONFIGURATIONS, Path("/etc/gitconfig"))


def writable(source: Path, target: str) -> Mount:
    """Return a mount that the build can write to."""
    return Mount(source=str(source), target=target, writable=True)


def program_mounts(*, server_home: Path, indexes: Iterable[str]) -> list[Mount]:
    """Return the mounts of this Python, the server's libraries, the programs on PATH, and local indexes."""
    folders = [Path(sys.prefix), *_outside(server_home), *_SETTINGS]
    folders += [Path(urlsplit(index).path) for index in indexes if urlsplit(index).scheme in ("", "file")]
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        folders += _program_folders(Path(entry))
    return [shown(folder) for folder in dict.fromkeys(folders) if folder.is_absolute() and folder.exists()]


def _outside(server_home: Path) -> Iterator[Path]:
    try:
        yield from find_embedded(home=server_home).outside
    except TritonNotFoundError:
        return


def _program_folders(folder: Path) -> Iterator[Path]:
    """Yield a folder of PATH, and what its programs need beside it; never all of a home's `.local`."""
    whole = folder.name in ("shims", ".bin") or any(
        (folder.parent / name).exists() for name in ("pyvenv.cfg", "conda-meta")
    )
    yield folder.parent if whole else folder
    yield folder.parent / "lib" / "node_modules"
    # `tritonstack setup` links the CDK CLI.
    for program in folder.glob("cdk"):
        yield from (parent for parent in program.resolve().parents if parent.name == "node_modules")
