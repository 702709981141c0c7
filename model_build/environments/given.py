"""Check and copy a conda-pack archive that serves as an execution environment.

Triton unpacks it into its own folder and sources bin/activate. Such environments contain links, which must
stay inside the archive.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tarfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from model_build.environments.packing import PYTHONS
from model_build.errors import EnvironmentBuildError
from model_build.store.archive import CheckedMember
from tritonstack.base.files import sha256_of
from tritonstack.files.records.manifests import EnvironmentReport

LIMIT_BYTES = 20 << 30
LIMIT_MEMBERS = 500_000
NEEDED = ("bin/activate", "bin/python", "bin/conda-unpack")
RECIPE = "make the archive with `conda-pack --name <environment> --output <file>.tar.gz`"
_PACKAGE = re.compile(r"conda-meta/(?P<name>.+)-(?P<version>[^-]+)-[^-]+\.json")
_PYTHON = re.compile(r"bin/python(?P<version>3\.\d+)")


@dataclass
class EnvironmentContents:
    """What one pass over the archive found."""

    names: set[str] = field(default_factory=set)
    packages: set[str] = field(default_factory=set)
    pythons: set[str] = field(default_factory=set)
    unpacked_bytes: int = 0


def accept_environment(archive: Path, *, file: Path) -> EnvironmentReport:
    """Check a conda-pack archive and copy it to `file`, in the model's folder of the repository."""
    contents = read_environment(archive)
    missing = [name for name in NEEDED if name not in contents.names]
    if missing:
        raise EnvironmentBuildError(
            f"{archive} is not a conda-pack archive; missing: {', '.join(missing)}", remedy=RECIPE
        )
    fitting = sorted(contents.pythons & set(PYTHONS))
    if len(contents.pythons) != 1 or not fitting:
        raise EnvironmentBuildError(
            f"{archive} has Python {' and '.join(sorted(contents.pythons)) or 'none'}; Triton's images "
            f"have {', '.join(PYTHONS)}",
            remedy="create the environment with the Python of the Triton release that serves it",
        )
    shutil.copyfile(archive, file)
    return EnvironmentReport(
        path=f"{file.parent.name}/{file.name}",
        sha256=sha256_of(file),
        size_bytes=file.stat().st_size,
        unpacked_bytes=contents.unpacked_bytes,
        packages=tuple(sorted(contents.packages)),
        pythons=("py" + fitting[0].replace(".", ""),),
    )


def read_environment(archive: Path, *, any_links: bool = False) -> EnvironmentContents:
    """Read the names in an archive; raise EnvironmentBuildError if it is not safe to unpack.

    `any_links` allows links to the image's own files, such as its Python.
    """
    contents = EnvironmentContents()
    try:
        with tarfile.open(archive, mode="r|gz", tarinfo=CheckedMember) as tar:
            for member in tar:
                _take(archive, member, contents, any_links=any_links)
    except (tarfile.TarError, EOFError, OSError, RecursionError, zlib.error) as error:
        raise EnvironmentBuildError(f"{archive} cannot be read: {error}", remedy=RECIPE) from error
    return contents


def _take(archive: Path, member: tarfile.TarInfo, contents: EnvironmentContents, *, any_links: bool) -> None:
    name = posixpath.normpath(member.name)
    if name.startswith(("/", "../")) or name == "..":
        raise EnvironmentBuildError(f"{archive}: {member.name!r} is outside the archive", remedy=RECIPE)
    if member.issym() or member.islnk():
        if not any_links:
            _check_link(archive, name, member)
    elif not (member.isreg() or member.isdir()):
        raise EnvironmentBuildError(f"{archive}: {name} is not a file, folder, or link", remedy=RECIPE)
    contents.names.add(name)
    contents.unpacked_bytes += member.size
    if contents.unpacked_bytes > LIMIT_BYTES or len(contents.names) > LIMIT_MEMBERS:
        raise EnvironmentBuildError(
            f"{archive} unpacks to more than {LIMIT_BYTES >> 30} GiB or {LIMIT_MEMBERS} files",
            remedy="remove packages that the model does not import, and pack the environment again",
        )
    if match := _PACKAGE.fullmatch(name):
        contents.packages.add(f"{match['name']}=={match['version']}")
    if match := _PYTHON.fullmatch(name):
        contents.pythons.add(match["version"])


def _check_link(archive: Path, name: str, member: tarfile.TarInfo) -> None:
    """Resolve a link: symbolic links from their own folder, hard links from the archive root."""
    start = posixpath.dirname(name) if member.issym() else ""
    target = posixpath.normpath(posixpath.join(start, member.linkname))
    if target.startswith(("/", "../")) or target == "..":
        raise EnvironmentBuildError(
            f"{archive}: the link {name} points to {member.linkname}, outside the archive",
            remedy="an environment must be self-contained; " + RECIPE,
        )
