"""Install the embedded Triton server: `python -m tritonstack.triton.install --home DIR`.

The server is built in a temporary folder and moved into place when complete, so a home is either a complete
server or does not exist. It is rebuilt only if an input has changed: the pinned requirements, the Python
stand-ins, this program, the Python version, or the libraries that backends link to. A backend without its
library is omitted.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from tritonstack.base.error_kinds import MissingProgramError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.extras import INDEX_REMEDY, pip_command, unreachable_index
from tritonstack.base.files import only_one
from tritonstack.triton.installation import (
    RECORD_NAME,
    SERVER_IN_PACKAGES,
    TritonInstallation,
    find_embedded,
    read_record,
)

# Link distributions of this Python environment into a folder that only one backend sees.
#
# PyTorch is three times as large as the rest of the server, and model builds need it anyway, so stand-ins
# share that copy. NumPy is never linked, because the server has the version that its stub requires.


SERVERS_OWN = frozenset({"numpy"})


@dataclass(frozen=True)
class LinkedPackages:
    """A distribution and its dependencies in this Python environment."""

    versions: Mapping[str, str]
    entries: tuple[Path, ...]
    """Their folders and modules in site-packages."""

    @property
    def identity(self) -> str:
        """Return their versions and paths, which an installation depends on."""
        versions = ",".join(f"{name}=={version}" for name, version in sorted(self.versions.items()))
        return f"{versions} in {','.join(map(str, self.sources))}"

    @property
    def sources(self) -> tuple[Path, ...]:
        """Return the folders that the links lead to."""
        return tuple(sorted({entry.parent for entry in self.entries}))

    def link_into(self, folder: Path) -> None:
        """Fill `folder` as a site-packages with only these packages."""
        folder.mkdir(parents=True)
        for entry in self.entries:
            (folder / entry.name).symlink_to(entry)


def find_packages(distribution: str) -> LinkedPackages | None:
    """Return the distribution and its dependencies; None if one is not installed."""
    found: dict[str, importlib.metadata.Distribution] = {}
    queue = [distribution]
    while queue:
        name = queue.pop()
        if name in found or name in SERVERS_OWN:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            return None
        queue += _dependencies(found[name])
    entries = sorted({entry for item in found.values() for entry in _entries(item)})
    return LinkedPackages({name: item.version for name, item in found.items()}, tuple(entries))


def _dependencies(item: importlib.metadata.Distribution) -> Iterator[str]:
    # Installed with the distribution; an environment that only installs the server may lack it.
    from packaging.requirements import Requirement  # noqa: PLC0415
    from packaging.utils import canonicalize_name  # noqa: PLC0415

    for line in item.requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _entries(item: importlib.metadata.Distribution) -> Iterator[Path]:
    """Return its top-level names in site-packages, without programs and manuals."""
    names = {file.parts[0] for file in item.files or [] if file.parts[0] not in ("..", "__pycache__")}
    for name in names:
        yield Path(str(item.locate_file(name))).resolve()


SOURCES = Path(__file__).parent
REQUIREMENTS = SOURCES / "requirements-embedded.txt"
BACKENDS = SOURCES / "backends"
PROGRAMS = (Path(__file__), Path(__file__))
SHARED_CODE = "common"
"""The folder in BACKENDS with the modules that all Python stand-ins share."""
LINKED_LIBRARIES = {"pytorch": "torch", "fil": "treelite", "openvino": "openvino"}
"""The libraries of backends that the server does not include, taken from this Python environment."""
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SITE_PACKAGES = f"python/lib/python{PYTHON_VERSION}/site-packages"

# NVIDIA's release for each server version, which the wheel does not contain.
RELEASE_OF_VERSION = {"2.51.0": "24.10"}


Libraries = Mapping[str, LinkedPackages | None]
"""The library per backend; None if this environment lacks it."""
OnUpdate = Callable[[str], None]
"""Receives each step of an installation."""


def install(*, home: Path, on_update: OnUpdate) -> TritonInstallation:
    """Install an embedded server in `home`, unless it has one from the same inputs."""
    home = home.absolute()
    libraries = linked_libraries()
    inputs = hash_inputs(libraries)
    # A second installation waits for the first, after which nothing is left to do.
    with only_one(home.with_name(f".{home.name}.lock")):
        if not _has_inputs(home, inputs):
            _replace(home, inputs, libraries, on_update)
    return find_embedded(home=home)


def is_current(*, home: Path) -> bool:
    """Return whether `home` has a server from the current inputs, so that `install` would change nothing."""
    return _has_inputs(home.absolute(), hash_inputs(linked_libraries()))


def linked_libraries() -> Libraries:
    """Return the library per backend in this Python environment."""
    return {name: find_packages(library) for name, library in LINKED_LIBRARIES.items()}


def _has_inputs(home: Path, inputs: str) -> bool:
    record = read_record(home)
    return record is not None and record["inputs"] == inputs


def hash_inputs(libraries: Libraries) -> str:
    """Return a digest of everything that determines an installation."""
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix} {platform.machine()}".encode())
    for file in [REQUIREMENTS, *PROGRAMS, *sorted(BACKENDS.rglob("*.py"))]:
        digest.update(file.relative_to(SOURCES).as_posix().encode())
        digest.update(file.read_bytes())
    for name, packages in sorted(libraries.items()):
        digest.update(f"{name}: {packages and packages.identity}".encode())
    return digest.hexdigest()


def _replace(home: Path, inputs: str, libraries: Libraries, on_update: OnUpdate) -> None:
    """Build in a temporary folder, then swap. First delete the remains of a killed run."""
    new, old = home.with_name(f".{home.name}.new"), home.with_name(f".{home.name}.old")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir()
    _build(new, inputs, libraries, on_update)
    if home.exists():
        home.rename(old)
    new.rename(home)
    shutil.rmtree(old, ignore_errors=True)


def _build(home: Path, inputs: str, libraries: Libraries, on_update: OnUpdate) -> None:
    libpython = find_libpython()
    on_update(f"creating a Python {platform.python_version()} environment")
    _EnvironmentBuilder(symlinks=True, with_pip=False).create(home / "python")
    on_update(f"installing {', '.join(pinned_requirements())}")
    _install_packages(home / SITE_PACKAGES)
    on_update("installing the backends")
    _lay_out_backends(home)
    for name in _lay_out_stand_ins(home / "backends", libraries):
        on_update(f"skipping the {name} backend: {LINKED_LIBRARIES[name]} is not installed")
    (home / "lib").mkdir()
    (home / "lib" / libpython_name()).symlink_to(libpython)
    version = _read_version(home)
    on_update(f"tritonserver {version} starts on this machine")
    record = {
        "inputs": inputs,
        "version": version,
        "release": _release_of(version),
        "site_packages": SITE_PACKAGES,
        "outside": [sys.base_prefix, *_sources(libraries)],
        "missing": {name: LINKED_LIBRARIES[name] for name, found in libraries.items() if found is None},
    }
    (home / RECORD_NAME).write_text(json.dumps(record, indent=2) + "\n")


class _EnvironmentBuilder(venv.EnvBuilder):
    """A relocatable virtual environment: its only absolute paths lead to the base interpreter."""

    def setup_scripts(self, context: SimpleNamespace) -> None:
        """Write no activate scripts, because they contain the temporary folder's path."""


def pinned_requirements() -> list[str]:
    """Return the pinned packages of the requirement file, without hashes and comments."""
    lines = (line.split("#")[0].strip() for line in REQUIREMENTS.read_text().splitlines())
    return [line.split()[0] for line in lines if line and not line.startswith("--hash")]


def _install_packages(site_packages: Path) -> None:
    options = [
        "install",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--root-user-action=ignore",
    ]
    result = subprocess.run(
        [*pip_command(), *options, f"--requirement={REQUIREMENTS}", f"--target={site_packages}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if cause := result.returncode and unreachable_index(result.stdout):
        raise MissingProgramError(
            f"pip could not install {', '.join(pinned_requirements())}: "
            f"the package index is unreachable: {cause}",
            remedy=INDEX_REMEDY,
        )
    if result.returncode:
        raise MissingProgramError(
            f"pip could not install {', '.join(pinned_requirements())}:\n{result.stdout.strip()}",
            remedy="the wheels require Linux on x86-64",
        )


def _lay_out_backends(home: Path) -> None:
    server = home / SITE_PACKAGES / SERVER_IN_PACKAGES
    stub = server / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub"
    if not stub.is_file():
        available = ", ".join(sorted(entry.name for entry in stub.parent.parent.iterdir()))
        raise MissingProgramError(
            f"the server's Python backend does not support Python {PYTHON_VERSION}",
            remedy=f"use one of these Python versions: {available}",
        )
    python_backend = home / "backends/python"
    shutil.copytree(server / "backends/python", python_backend)
    shutil.copy(stub, python_backend)
    for program in (server / "bin/tritonserver", python_backend / stub.name):
        program.chmod(0o755)


def _lay_out_stand_ins(directory: Path, libraries: Libraries) -> list[str]:
    """Install the project's Python stand-ins with their code and libraries; return the skipped ones."""
    skipped = []
    for source in sorted(BACKENDS.glob("*/model.py")):
        name = source.parent.name
        packages = libraries.get(name)
        if name in libraries and packages is None:
            skipped.append(name)
            continue
        folder = directory / name
        folder.mkdir()
        for code in (*source.parent.glob("*.py"), *(BACKENDS / SHARED_CODE).glob("*.py")):
            shutil.copy(code, folder)
        if packages:
            packages.link_into(folder / "packages")
    return skipped


def _sources(libraries: Libraries) -> list[str]:
    return sorted({str(folder) for found in libraries.values() if found for folder in found.sources})


def libpython_name() -> str:
    """Return the library that this Python version's stub is linked against."""
    return f"libpython{PYTHON_VERSION}.so.1.0"


def find_libpython() -> Path:
    """Return this interpreter's own library, or the system's of the same version."""
    folders = [Path(str(sysconfig.get_config_var("LIBDIR"))), Path(sys.base_prefix, "lib")]
    candidates = [folder / libpython_name() for folder in folders]
    listing = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False).stdout
    candidates += [Path(path) for path in re.findall(rf"{re.escape(libpython_name())} .*=> (\S+)", listing)]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise MissingProgramError(
        f"{libpython_name()} is not installed, but Triton's Python backend requires it",
        remedy=f"install it (Debian, Ubuntu: apt-get install libpython{PYTHON_VERSION}), "
        "or use a Python that was built with --enable-shared",
    )


def _read_version(home: Path) -> str:
    """Return the server's version, which also proves that all its libraries are installed.

    It has no version option, but prints the version before it rejects a missing repository.
    """
    packages = home / SITE_PACKAGES
    quiet = [f"--allow-{frontend}=false" for frontend in ("http", "grpc", "metrics")]
    result = subprocess.run(
        [packages / SERVER_IN_PACKAGES / "bin/tritonserver", "--model-repository=/nonexistent", *quiet],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    found = re.search(r"\| server_version\s*\| (\S+)", result.stdout)
    if not found:
        raise MissingProgramError(
            f"the installed tritonserver does not start:\n{result.stdout.strip()}",
            remedy="it requires Linux on x86-64 with glibc 2.35 or later",
        )
    return found.group(1)


def _release_of(version: str) -> str:
    if version not in RELEASE_OF_VERSION:
        raise MissingProgramError(
            f"unknown release for Triton {version} of the wheel",
            remedy="upgrade tritonstack, or install the wheel of a release that it supports",
        )
    return RELEASE_OF_VERSION[version]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tritonstack.triton.install", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="the folder to install the server in")
    parser.add_argument("--check", action="store_true", help="only check that this machine has what it needs")
    options = parser.parse_args()
    home: Path = options.home
    started = time.monotonic()
    try:
        if options.check:
            find_libpython()
            return 0
        found = install(home=home, on_update=lambda step: print(f"  {step}", flush=True))
    except TritonstackError as error:
        print(error.report(), file=sys.stderr)
        return error.exit_code
    print(f"Triton {found.version} ({found.release}) in {home}, {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
