"""Pack the packages that a Python model imports, as an archive that Triton unpacks and activates.

The archive holds only what Triton's image lacks. NumPy is the image's own, because Triton's stub is bound to
it, unless the requirements name it: then that version is packed and must work with the stub. Pure packages go
to packages/, compiled ones to one folder per Python (packages-py310/).

Releases up to 25.07 source bin/activate, which adapts the environment to the python3 on PATH
(served/adapt_environment.py). Releases since 25.08 only put bin/ first on PATH, so the archive is a complete
virtual environment of the image's Python.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from model_build.environments.wheels import bound_python, fetch_wheels, wheel_name
from model_build.errors import EnvironmentBuildError
from model_build.served import adapt_environment, choose_packages, watch_stubs
from model_build.store import archive
from tritonstack.base.files import only_one, sha256_of
from tritonstack.facts.releases import RELEASES
from tritonstack.files.records.manifests import EnvironmentReport

ARCHIVE_NAME = "env.tar.gz"
REPORT_NAME = "report.json"
ENV_PARAMETER = "EXECUTION_ENV_PATH"
ENV_PARAMETER_VALUE = f"$$TRITON_MODEL_DIRECTORY/{ARCHIVE_NAME}"
LAPTOP_PYTHON = "3.11"
"""The Python that usually runs the embedded server."""


def _by_age(python: str) -> int:
    return int(python.partition(".")[2])


RELEASE_PYTHONS = tuple(sorted({release.python for release in RELEASES.values()}, key=_by_age))
PYTHONS = tuple(sorted({*RELEASE_PYTHONS, LAPTOP_PYTHON}, key=_by_age))
"""Default Pythons for compiled packages: those of all releases and of the embedded server."""

IMAGE_PYTHON = Path("/usr/bin/python3")
"""Python of Triton's Ubuntu-based images."""
PYTHON_LINK = "bin/python3"

ANY_PYTHON = "packages"
# Up to 25.07, Triton's launcher runs: bash -c "source <environment>/bin/activate && exec … stub"
ACTIVATE = """\
# Sourced by Triton's Python backend. Fits this environment to the python3 of the image, and enters it.
tritonstack_environment="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
case ":$PATH:" in
    *":$tritonstack_environment/bin:"*) ;;
    *)
        python3 -I "$tritonstack_environment/adapt_environment.py" "$tritonstack_environment" || return 1
        (python3 -I -S "$tritonstack_environment/watch_stubs.py" "$PPID" </dev/null &)
        export PATH="$tritonstack_environment/bin:$PATH"
        ;;
esac
unset tritonstack_environment PYTHONHOME
"""
# An environment without packages: the model keeps the image's Python and packages.
ACTIVATE_ALONE = """\
# Sourced by Triton's Python backend. Watches the model's process.
(python3 -I -S "$(dirname "${BASH_SOURCE[0]}")/../watch_stubs.py" "$PPID" </dev/null &)
"""
WATCHING = (
    "import sys, importlib.util as u; "
    "s = u.spec_from_file_location('watch_stubs', sys.prefix + '/watch_stubs.py'); "
    "m = u.module_from_spec(s); s.loader.exec_module(m); m.start()\n"
)
"""A line of a .pth file, which Python runs at startup."""
ADAPTING = '        python3 -I "$tritonstack_environment/adapt_environment.py"'
CHOOSING = """\
        python3 -I "$tritonstack_environment/choose_packages.py" "$tritonstack_environment" || return 1
"""
# Files that imports never need: types, C sources, installer data, tests.
UNNEEDED = (".pyi", "/py.typed", ".dist-info/RECORD", ".a", ".h", ".hpp", ".cuh", ".pxd", ".pyx")
UNNEEDED_FOLDERS = frozenset({"tests", "__pycache__", "sboms"})
# Importable parts of a wheel's <name>.data folder.
IMPORTED_DATA = ("purelib/", "platlib/")

Folders = Mapping[str, Sequence[Path]]
"""The wheels in each folder of an environment."""


@dataclass(frozen=True)
class Packages:
    """Pinned requirements of an execution environment."""

    requirements: tuple[str, ...]
    dependencies: bool
    """Whether to pack the packages that they require, too."""


def installed_requirement(distribution: str) -> str:
    """Return a requirement at the version that this build uses, so that the served version is the compared
    one."""
    return f"{distribution}=={importlib.metadata.version(distribution)}"


def build_environment(
    requirements: Sequence[str],
    *,
    file: Path,
    cache_dir: Path,
    pythons: Sequence[str] = (),
    dependencies: bool = True,
) -> EnvironmentReport:
    """Pack the wheels of pinned `requirements` and their dependencies into `file`.

    `pythons` (3.10, 3.12) are those to include compiled packages for; default PYTHONS. `file` is in the
    model's folder of the repository. Equal wheels give equal bytes, and are packed once per cache. Without
    requirements, the environment only watches the model process.
    """
    folders = _resolve(requirements, pythons, cache_dir, dependencies)
    cached = _cached(folders, cache_dir)
    with only_one(_lock_of(cached)):
        report = _reuse(cached, file)
        if report is None:
            report = _pack(folders, cached)
            shutil.copyfile(cached / ARCHIVE_NAME, file)
    return report.model_copy(update={"path": f"{file.parent.name}/{file.name}"})


def fill_cache(requirements: Sequence[str], *, cache_dir: Path, dependencies: bool) -> None:
    """Pack the environment of these `requirements` into the cache, for a later `build_environment`."""
    folders = _resolve(requirements, (), cache_dir, dependencies)
    cached = _cached(folders, cache_dir)
    with only_one(_lock_of(cached)):
        if not (cached / REPORT_NAME).is_file():
            _pack(folders, cached)


def target_python(report: EnvironmentReport, requested: str | None) -> str | None:
    """Return the Python (py310) that an artifact with this environment is bound to; None if none.

    `asked` is the Python of the build target.
    """
    everywhere = {_tag(python) for python in RELEASE_PYTHONS} <= set(report.pythons)
    if not report.pythons or everywhere:
        return None
    return requested if requested in report.pythons else report.pythons[0]


def _tag(python: str) -> str:
    return "py" + python.replace(".", "")


def _resolve(
    requirements: Sequence[str], pythons: Sequence[str], cache_dir: Path, dependencies: bool
) -> Folders:
    if not requirements:
        return {}
    chosen = sorted(set(pythons or PYTHONS), key=_by_age)
    return _folders(requirements, chosen, cache_dir / "wheels", dependencies)


def _cached(folders: Folders, cache_dir: Path) -> Path:
    return cache_dir / "environments" / _key(folders)


def _lock_of(cached: Path) -> Path:
    return cached.with_name(f".{cached.name}.lock")


def _folders(
    requirements: Sequence[str], pythons: Sequence[str], cache_dir: Path, dependencies: bool
) -> dict[str, tuple[Path, ...]]:
    """Map folders to wheels."""

    def fetch(python: str) -> tuple[Path, ...]:
        return fetch_wheels(requirements, python=python, cache_dir=cache_dir, dependencies=dependencies)

    first = fetch(pythons[0])
    bound = any(bound_python(wheel.name) for wheel in first)
    serves_all = set(PYTHONS) <= set(pythons)
    if not bound and not dependencies and serves_all:
        return {ANY_PYTHON: first}  # The oldest Python's pure wheels run on every later one.
    wheels_of = {pythons[0]: first, **{python: fetch(python) for python in pythons[1:]}}
    by_name = {wheel.name: wheel for wheels in wheels_of.values() for wheel in wheels}
    shared = {name for name in by_name if bound_python(name) is None}
    for wheels in wheels_of.values():
        shared &= {wheel.name for wheel in wheels}
    folders = {ANY_PYTHON: tuple(by_name[name] for name in sorted(shared))}
    own_code = {
        f"{ANY_PYTHON}-{_tag(python)}": tuple(wheel for wheel in wheels if wheel.name not in shared)
        for python, wheels in wheels_of.items()
    }
    # An empty folder per Python still marks that Python as supported.
    return {**folders, **own_code} if any(own_code.values()) or not serves_all else folders


def _key(folders: Folders) -> str:
    """Return a hash of all that decides an environment's bytes: its wheels and the packing code."""
    digest = hashlib.sha256()
    served = (adapt_environment.__file__, choose_packages.__file__, watch_stubs.__file__)
    for file in (__file__, archive.__file__, *served):
        digest.update(Path(file).read_bytes())
    digest.update(importlib.metadata.version("isal").encode())
    for folder, wheels in sorted(folders.items()):
        digest.update(f"\n{folder}:".encode())
        for wheel in wheels:
            digest.update(f"{wheel.name}={sha256_of(wheel)};".encode())
    return digest.hexdigest()[:32]


def _reuse(cached: Path, file: Path) -> EnvironmentReport | None:
    """Return the cached report; None if the cached archive is missing or corrupt."""
    try:
        report = EnvironmentReport.model_validate_json((cached / REPORT_NAME).read_bytes())
        shutil.copyfile(cached / ARCHIVE_NAME, file)
    except (FileNotFoundError, ValueError):
        return None
    return report if sha256_of(file) == report.sha256 else None


def _pack(folders: Folders, cached: Path) -> EnvironmentReport:
    """Pack next to the cache folder, and move the result there when complete."""
    new = cached.with_name(f".{cached.name}.new")
    for leftover in (new, cached):
        shutil.rmtree(leftover, ignore_errors=True)
    _write(new / "environment", folders)
    packed = archive.pack(new / "environment", new / ARCHIVE_NAME, any_name=True, links=(PYTHON_LINK,))
    shutil.rmtree(new / "environment")
    report = EnvironmentReport(
        path=ARCHIVE_NAME,
        sha256=packed.digest,
        size_bytes=packed.size_bytes,
        unpacked_bytes=packed.unpacked_bytes,
        packages=tuple(sorted({wheel_name(wheel) for wheels in folders.values() for wheel in wheels})),
        pythons=tuple(name.partition("-")[2] for name in folders if name != ANY_PYTHON),
    )
    (new / REPORT_NAME).write_text(report.model_dump_json(indent=2) + "\n")
    new.rename(cached)
    return report


def _write(folder: Path, folders: Folders) -> None:
    for name, wheels in folders.items():
        (folder / name).mkdir(parents=True)
        for wheel in wheels:
            _extract(wheel, folder / name)
    (folder / "bin").mkdir(parents=True)
    scripts = [Path(watch_stubs.__file__)]
    activate = ACTIVATE_ALONE
    if folders:
        scripts.append(Path(adapt_environment.__file__))
        activate = ACTIVATE
    if len(folders) > 1:
        scripts.append(Path(choose_packages.__file__))
        activate = ACTIVATE.replace(ADAPTING, CHOOSING + ADAPTING)
    (folder / "bin" / "activate").write_text(activate)
    for script in scripts:
        shutil.copyfile(script, folder / script.name)
    _lay_virtual_environment(folder, folders)


def _lay_virtual_environment(folder: Path, folders: Folders) -> None:
    """Make the folder a virtual environment of the image's Python that works without activation.

    `bin/activate` writes the same file names, so activation replaces them.
    """
    (folder / PYTHON_LINK).symlink_to(IMAGE_PYTHON)
    # NumPy comes from the image.
    settings = f"home = {IMAGE_PYTHON.parent}\ninclude-system-site-packages = true\n"
    (folder / "pyvenv.cfg").write_text(settings)
    for python in PYTHONS:
        compiled = f"{ANY_PYTHON}-{_tag(python)}"
        if len(folders) > 1 and compiled not in folders:
            continue
        site_packages = folder / "lib" / f"python{python}" / "site-packages"
        site_packages.mkdir(parents=True)
        # Paths in .pth files may be relative to site-packages.
        if folders:
            (site_packages / "packages.pth").write_text(f"../../../{ANY_PYTHON}\n")
        (site_packages / "watch_stubs.pth").write_text(WATCHING)
        if compiled in folders:
            (site_packages / "compiled.pth").write_text(f"../../../{compiled}\n")


def _extract(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as contents:
            for member in contents.infolist():
                name = _place(member.filename)
                if name is not None and not member.is_dir():
                    member.filename = name
                    contents.extract(member, folder)
    except zipfile.BadZipFile as error:
        raise EnvironmentBuildError(
            f"{wheel} is corrupt: {error}", remedy=f"delete {wheel.parent} and rerun"
        ) from error


def _place(name: str) -> str | None:
    """Return the path of a wheel's file below packages/; None if imports never need it."""
    top, _, rest = name.partition("/")
    if top.endswith(".data"):
        kind = next((kind for kind in IMPORTED_DATA if rest.startswith(kind)), None)
        if kind is None:
            return None
        name = rest.removeprefix(kind)
    if name.endswith(UNNEEDED) or UNNEEDED_FOLDERS & set(name.split("/")):
        return None
    return name


# Pack an execution environment in a process of its own, while the framework exports the graph.
#
#     python -m model_build.environments.packing CACHE [--no-dependencies] REQUIREMENT…
#
# Packing takes seconds, and exporters use one core. A thread would not help: the exporter rarely releases
# Python's interpreter lock. The process fills the cache of execution environments and ends with the build. It
# reports no errors: the build packs whatever the cache lacks, and reports the same errors.

_STOPS_WITHIN_S = 5.0


class EarlyPacking:
    """A process that fills the cache, from `start` until the end of the block at the latest."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, packages: Packages | None) -> None:
        """Pack these packages, if any."""
        if packages is None:
            return
        options = [] if packages.dependencies else ["--no-dependencies"]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._cache_dir), *options, *packages.requirements],
            stdin=subprocess.PIPE,  # its end stops the process, however this one ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Fill the cache, unless the build ends first."""
    parser = argparse.ArgumentParser(description="Pack an execution environment into the cache.")
    parser.add_argument("cache", type=Path)
    parser.add_argument("--no-dependencies", action="store_true")
    parser.add_argument("requirements", nargs="+")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception also stops pip
    threading.Thread(target=_end_with_build, daemon=True).start()
    fill_cache(options.requirements, cache_dir=options.cache, dependencies=not options.no_dependencies)


def _end_with_build() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
