"""Packages that only some builds import: fetched by hash, and unpacked in the cache.

They are not installed beside the others, which would import them, too: transformers imports torchvision
wherever it finds it.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from model_build.environments.wheels import fetch_wheels, parse_pinned, read_requirements
from model_build.errors import EnvironmentBuildError
from model_build.store.locking import only_one

TIMM = Path(__file__).with_name("requirements-timm.txt")


def fetched_versions() -> Mapping[str, str]:
    """Return the version of each package that a build may fetch."""
    pinned = [parse_pinned(line) for line in _lines(TIMM)]
    return {item.name: next(iter(item.requirement.specifier)).version for item in pinned}


def unpack_packages(file: Path, *, cache_dir: Path) -> Path:
    """Return a folder with the packages of a requirements file, without their dependencies."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    lines = _lines(file)
    try:
        wheels = fetch_wheels(lines, python=python, cache_dir=cache_dir / "wheels", dependencies=False)
    except EnvironmentBuildError as error:
        names = ", ".join(line.partition(" ")[0] for line in lines)
        raise EnvironmentBuildError(
            f"cannot fetch {names}, which this build imports: {error.message}",
            remedy="run the build where pip reaches its package index; later builds find them in the cache "
            f"{cache_dir}",
        ) from error
    key = hashlib.sha256("\n".join(wheel.name for wheel in wheels).encode()).hexdigest()[:16]
    target = cache_dir / "packages" / key
    target.parent.mkdir(parents=True, exist_ok=True)
    with only_one(target.with_name(f".{key}.lock")):
        if not target.is_dir():
            folder = target.with_name(f".{key}.new")
            shutil.rmtree(folder, ignore_errors=True)
            for wheel in wheels:
                _unpack(wheel, folder)
            folder.rename(target)
    return target


def _lines(file: Path) -> tuple[str, ...]:
    return read_requirements(file.read_text(encoding="utf-8"))


def _unpack(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as contents:
            contents.extractall(folder)
    except zipfile.BadZipFile as error:
        raise EnvironmentBuildError(
            f"{wheel} is corrupt: {error}", remedy=f"delete {wheel.parent} and rerun"
        ) from error
