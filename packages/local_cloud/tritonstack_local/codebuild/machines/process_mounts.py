"""What a build in a process sees of this machine: its own folders, and programs, read-only."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tritonstack.base.errors import UsageError
from tritonstack.base.paths import MARKER, find_project
from tritonstack.triton import TritonNotFoundError
from tritonstack.triton.inside.private_root import Mount, shown
from tritonstack.triton.installation import find_embedded
from tritonstack_local.codebuild.machines.network import PIP_CONFIGURATIONS

_MANAGERS = ("asdf", "goenv", "jenv", "mise", "nodenv", "pyenv", "rbenv")
"""Programs in a folder `shims` of these start others beside it."""
_SETTINGS = (*PIP_CONFIGURATIONS, Path("/etc/gitconfig"))


def writable(source: Path, target: str) -> Mount:
    """Return a mount that the build can write to."""
    return Mount(source=str(source), target=target, writable=True)


def program_mounts(*, server_home: Path, indexes: Iterable[str]) -> list[Mount]:
    """Return the mounts of this Python, the server's libraries, the programs on PATH, and local indexes."""
    folders = [Path(sys.prefix), *_outside(server_home), *_SETTINGS, *_local_indexes(indexes)]
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        folders += _program_folders(Path(entry))
    return [shown(folder) for folder in dict.fromkeys(folders) if folder.is_absolute()]


def permitted(mounts: Iterable[Mount], *, state: Path) -> list[Mount]:
    """Return the mounts that the cloud's user may read and that show no home, project, or state as a whole.

    `state` is a folder of the cloud's state.
    """
    private = [Path("/"), Path.home(), state]
    with contextlib.suppress(UsageError):
        private.append(find_project(Path.cwd()).root)
    closed = {os.path.realpath(path) for path in private}
    return [
        mount
        for mount in mounts
        if os.access(mount["source"], os.R_OK)
        and not os.path.exists(os.path.join(mount["source"], MARKER))
        and not any(_holds(os.path.realpath(mount["source"]), path) for path in closed)
    ]


def _holds(folder: str, path: str) -> bool:
    return os.path.commonpath((folder, path)) == folder


def _local_indexes(indexes: Iterable[str]) -> Iterator[Path]:
    for index in indexes:
        with contextlib.suppress(ValueError):
            parts = urlsplit(index)
            if parts.scheme in ("", "file"):
                yield Path(parts.path)


def _outside(server_home: Path) -> Iterator[Path]:
    try:
        yield from find_embedded(home=server_home).outside
    except TritonNotFoundError:
        return


def _program_folders(folder: Path) -> Iterator[Path]:
    """Yield a folder of PATH, and what its programs need beside it; never all of a home's `.local`."""
    parent = folder.parent
    whole = (
        (folder.name == ".bin" and parent.name == "node_modules")
        or (folder.name == "shims" and parent.name.lstrip(".") in _MANAGERS)
        or any(os.path.exists(parent / name) for name in ("pyvenv.cfg", "conda-meta"))
    )
    yield parent if whole else folder
    yield parent / "lib" / "node_modules"
    # `tritonstack setup` links the CDK CLI.
    cdk = Path(os.path.realpath(folder / "cdk"))
    if os.path.exists(cdk):
        yield from (outer for outer in cdk.parents if outer.name == "node_modules")
