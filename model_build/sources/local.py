"""Sources on this machine: file://folder, and package://distribution==version/folder.

pip and the index verify the wheel. Here, every file is checked against the distribution's RECORD, and folders
must be listed in it.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import shutil
import subprocess
from importlib.metadata import Distribution, PackagePath
from pathlib import Path

from model_build.errors import AlteredSourceError, SourceError
from model_build.sources.base import FoundFolder, add_file, check_weights
from tritonstack.base.extras import INDEX_REMEDY, pip_command, unreachable_index
from tritonstack.base.files import staging_folder
from tritonstack.base.source_files import list_files, source_folder
from tritonstack.files.sources.model_files import CODE_SUFFIX
from tritonstack.files.sources.source_selection import TRANSFORMERS, FileSelection


def fetch_folder(
    text: str, *, model_folder: Path, selection: FileSelection = TRANSFORMERS, trusted: bool = False
) -> FoundFolder:
    """Read a local folder; its revision is a hash over every wanted file.

    It must be inside the model's folder unless `trusted`.
    """
    folder = source_folder(model_folder, text, trusted=trusted)
    if not folder.is_dir():
        raise SourceError(
            f"file://{text}: folder not found: {folder}",
            remedy="name the folder that has the model, relative to the folder of model.yaml",
        )
    check_weights(selection.weights_among(folder))  # faster than hashing incomplete files
    return FoundFolder(folder, f"sha256:{_hash_of(folder, selection)}")


def _hash_of(folder: Path, selection: FileSelection) -> str:
    digest = hashlib.sha256()
    for name, file in list_files(folder).items():
        if selection.holds(name) or name.endswith(CODE_SUFFIX):
            digest.update(f"{name}\0{file.size}\0".encode())
            add_file(digest, file.path)
    return digest.hexdigest()


def fetch_from_package(text: str, *, cache_dir: Path, selection: FileSelection = TRANSFORMERS) -> FoundFolder:
    """Return the folder of a distribution: the installed one if the version matches, else a cached one."""
    requirement, _, inner = text.partition("/")
    name, _, version = requirement.partition("==")
    distribution = _installed(name, version) or _cached(name, version, cache_dir / "packages")
    root = Path(str(distribution.locate_file(""))).resolve()
    folder = (root / inner).resolve()
    listed = _listed(distribution, root, folder) if root in folder.parents else {}
    if not listed or not folder.is_dir():
        raise SourceError(
            f"package://{text}: {requirement} has no folder {inner!r}",
            remedy=f"list its files with `pip show --files {name}`",
        )
    check_weights(selection.weights_among(folder))  # faster than hashing incomplete files
    _check_files(folder, listed, selection, source=f"package://{text}")
    return FoundFolder(folder, version)


def _listed(distribution: Distribution, root: Path, folder: Path) -> dict[str, PackagePath]:
    """Return the distribution's hashes below a folder, by relative name."""
    paths = ((root / entry, entry) for entry in distribution.files or ())
    return {
        path.relative_to(folder).as_posix(): entry for path, entry in paths if path.is_relative_to(folder)
    }


def _check_files(
    folder: Path, listed: dict[str, PackagePath], selection: FileSelection, *, source: str
) -> None:
    for name in selection.among(folder):
        entry = listed.get(name)
        if entry is None:
            raise AlteredSourceError(
                f"{source}: {name} is not part of the distribution",
                remedy="remove it, or install the distribution again",
            )
        if entry.hash is not None and _digest(folder / name, entry.hash.mode) != entry.hash.value:
            raise AlteredSourceError(
                f"{source}: {name} has changed since installation",
                remedy="install the distribution again",
            )


def _digest(file: Path, mode: str) -> str:
    """Return a file's hash in RECORD format."""
    digest = hashlib.new(mode)
    add_file(digest, file)
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()


def _installed(name: str, version: str) -> Distribution | None:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return distribution if distribution.version == version else None


def _cached(name: str, version: str, packages_dir: Path) -> Distribution:
    target = packages_dir / f"{name}-{version}"
    if not target.is_dir():
        with staging_folder(packages_dir, ".installing-") as temporary:
            unpacked = temporary / "package"
            _install(f"{name}=={version}", unpacked)
            _move_into_place(unpacked, target)
    return next(iter(importlib.metadata.distributions(name=name, path=[str(target)])))


def _install(requirement: str, target: Path) -> None:
    # Wheels only: installing a source distribution would run its code.
    command = [*pip_command(), "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--only-binary=:all:", f"--target={target}", requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if cause := unreachable_index(done.stderr):
            raise SourceError(
                f"{requirement} cannot be installed: the package index is unreachable: {cause}",
                remedy=INDEX_REMEDY,
            )
        raise SourceError(
            f"{requirement} cannot be installed:\n{done.stderr.strip()[-2000:]}",
            remedy="check the name and the version",
        )


def _move_into_place(unpacked: Path, target: Path) -> None:
    try:
        unpacked.rename(target)
    except OSError:
        # Another build installed the same version meanwhile.
        if not target.is_dir():
            raise
        shutil.rmtree(unpacked)
