"""Build the plain model in a separate process, and kill it at the step that the first argument names.

python -m tests.model_build.builds.killed_build STEP|POINT|nowhere MODEL ARTIFACTS CACHE SERVER
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from model_build.build import BuildFolders, build_model
from model_build.environments import packing as environments
from model_build.environments import wheels
from model_build.progress import Progress
from model_build.store import archive, artifacts
from tests.model_build.builds.plain_model import write_plain_model
from tritonstack.triton import TritonServer


def die(*_: object, **__: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at_call(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to kill the process at the given call."""
    calls: list[int] = []

    def counted(*values: Any, **named: Any) -> Any:
        calls.append(1)
        return die() if len(calls) == number else function(*values, **named)

    return counted


pack = archive.pack


def half_an_archive(folder: Path, file: Path, **options: Any) -> Any:
    pack(folder, file, **options)
    os.truncate(file, file.stat().st_size // 2)
    die()


def wheels_not_yet_in_place(resolution: Any, lines: Any) -> Any:
    download(resolution, lines)
    die()


download = wheels._Resolution._download
# In the middle of steps, in the order in which a build comes there: which function to replace, and by what.
POINTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "wheels fetched": (wheels._Resolution, "run", die),
    "wheels not yet in place": (wheels._Resolution, "_download", wheels_not_yet_in_place),
    "environment laid": (environments, "_write", die),
    "environment half packed": (environments.archive, "pack", half_an_archive),
    "environment copied": (shutil, "copyfile", killed_at_call(2, shutil.copyfile)),
    "archive half packed": (archive, "_add", killed_at_call(5, archive._add)),
    "archive half unpacked": (archive, "_place", killed_at_call(3, archive._place)),
    "first server asked": (TritonServer, "request", die),
    "second server started": (TritonServer, "start", killed_at_call(2, TritonServer.start)),
    "archive kept, manifest not": (artifacts, "write_text_atomically", die),
}
EVERYWHERE = ("source", "repository", *POINTS, "pack", "serve", "keep")


def main(where: str, model: str, *places: str) -> None:
    """Build, and print the digest."""
    if where in POINTS:
        owner, name, replacement = POINTS[where]
        setattr(owner, name, replacement)

    def kill(progress: Progress) -> None:
        if progress.step == where and progress.state == "started":
            die()

    folders = BuildFolders(*map(Path, places))
    result = build_model(model=write_plain_model(Path(model)), folders=folders, on_progress=kill)
    print(result.manifest.digest)


if __name__ == "__main__":
    main(*sys.argv[1:])
