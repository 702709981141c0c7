"""The packages that a served Python model imports, as an archive that Triton unpacks and activates.

The archive brings only what Triton's image lacks; NumPy is the image's own, because Triton's stub is bound
to it, unless the requirements name it: then theirs is imported, and has to be one that the stub works with.
Packages that run on every Python lie in packages/, compiled ones once for each Python in packages-py310/ and
so on.

Triton enters an environment in two ways. Releases up to 25.07 source its bin/activate, which fits it to the
python3 on PATH (served/adapt_environment.py). Releases from 25.08 on run nothing of it and only put its bin/
first on PATH, so the archive is a complete virtual environment of the images' Python as it is packed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from model_build.environments.wheels import bound_python, fetch_wheels, wheel_name
from model_build.errors import EnvironmentBuildError
from model_build.served import adapt_environment, choose_packages, watch_stubs
from model_build.store import archive
from model_build.store.locking import only_one
from tritonstack.base.files import sha256_of
from tritonstack.records.manifests import EnvironmentReport
from tritonstack.reference.releases import RELEASES

ARCHIVE_NAME = "env.tar.gz"
REPORT_NAME = "report.json"
PARAMETER = "EXECUTION_ENV_PATH"
PARAMETER_VALUE = f"$$TRITON_MODEL_DIRECTORY/{ARCHIVE_NAME}"
LAPTOP_PYTHON = "3.11"
"""The Python that the embedded server is usually installed with."""


def _by_age(python: str) -> int:
    return int(python.partition(".")[2])


RELEASE_PYTHONS = tuple(sorted({release.python for release in RELEASES.values()}, key=_by_age))
PYTHONS = tuple(sorted({*RELEASE_PYTHONS, LAPTOP_PYTHON}, key=_by_age))
"""What compiled packages are brought for unless asked otherwise: every release's Python, and the laptop's."""
OLDEST_PYTHON = PYTHONS[0]

IMAGE_PYTHON = Path("/usr/bin/python3")
"""The Python of Triton's images, which are based on Ubuntu."""
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
# An environment without packages: the model keeps the image's Python and its packages.
ACTIVATE_ALONE = """\
# Sourced by Triton's Python backend. Watches the model's process.
(python3 -I -S "$(dirname "${BASH_SOURCE[0]}")/../watch_stubs.py" "$PPID" </dev/null &)
"""
WATCHING = (
    "import sys, importlib.util as u; "
    "s = u.spec_from_file_location('watch_stubs', sys.prefix + '/watch_stubs.py'); "
    "m = u.module_from_spec(s); s.loader.exec_module(m); m.start()\n"
)
"""A line of a .pth file, which Python runs when it starts."""
ADAPTING = '        python3 -I "$tritonstack_environment/adapt_environment.py"'
CHOOSING = """\
        python3 -I "$tritonstack_environment/choose_packages.py" "$tritonstack_environment" || return 1
"""
# What importing never needs: types, sources of compiled code, what only an installer reads, tests.
UNNEEDED = (".pyi", "/py.typed", ".dist-info/RECORD", ".a", ".h", ".hpp", ".cuh", ".pxd", ".pyx")
UNNEEDED_FOLDERS = frozenset({"tests", "__pycache__", "sboms"})
# A wheel's folder <name>.data holds what belongs elsewhere; of it only what can be imported is.
IMPORTED_DATA = ("purelib/", "platlib/")

Folders = Mapping[str, Sequence[Path]]
"""The wheels in each folder of an environment."""


def installed_requirement(distribution: str) -> str:
    """The exact version that this build uses itself, so that what is served is what was compared."""
    return f"{distribution}=={importlib.metadata.version(distribution)}"


def build_environment(
    requirements: Sequence[str],
    *,
    file: Path,
    cache_dir: Path,
    pythons: Sequence[str] = (),
    dependencies: bool = True,
) -> EnvironmentReport:
    """Pack the wheels of `requirements`, each at an exact version, and of what they depend on, into `file`.

    `pythons` (3.10, 3.12) are those that compiled packages are brought for; by default PYTHONS. `file` lies
    in the model's own folder of the repository. The same wheels always give the same bytes, and are packed
    once for all models that share the cache. Without requirements it only watches the model's process.
    """
    chosen = sorted(set(pythons or PYTHONS), key=_by_age)
    folders = _folders(requirements, chosen, cache_dir / "wheels", dependencies) if requirements else {}
    kept = cache_dir / "environments" / _key(folders)
    with only_one(kept.with_name(f".{kept.name}.lock")):
        report = _reuse(kept, file) or _pack(folders, kept, file)
    return report.model_copy(update={"path": f"{file.parent.name}/{file.name}"})


def target_python(report: EnvironmentReport, asked: str | None) -> str | None:
    """The Python, such as py310, that an artifact with this environment is bound to; None if to none.

    `asked` is the Python of the target that is built for.
    """
    everywhere = {_tag(python) for python in RELEASE_PYTHONS} <= set(report.pythons)
    if not report.pythons or everywhere:
        return None
    return asked if asked in report.pythons else report.pythons[0]


def _tag(python: str) -> str:
    return "py" + python.replace(".", "")


def _folders(
    requirements: Sequence[str], pythons: Sequence[str], cache_dir: Path, dependencies: bool
) -> dict[str, tuple[Path, ...]]:
    """Which wheels go where."""

    def fetch(python: str) -> tuple[Path, ...]:
        return fetch_wheels(requirements, python=python, cache_dir=cache_dir, dependencies=dependencies)

    first = fetch(pythons[0])
    bound = any(bound_python(wheel.name) for wheel in first)
    serves_all = set(PYTHONS) <= set(pythons)
    if not bound and not dependencies and serves_all:
        return {ANY_PYTHON: first}  # what runs on the oldest runs on every later one
    found = {pythons[0]: first, **{python: fetch(python) for python in pythons[1:]}}
    by_name = {wheel.name: wheel for wheels in found.values() for wheel in wheels}
    shared = {name for name in by_name if bound_python(name) is None}
    for wheels in found.values():
        shared &= {wheel.name for wheel in wheels}
    folders = {ANY_PYTHON: tuple(by_name[name] for name in sorted(shared))}
    own = {
        f"{ANY_PYTHON}-{_tag(python)}": tuple(wheel for wheel in wheels if wheel.name not in shared)
        for python, wheels in found.items()
    }
    # A folder for each Python, were it empty, tells an image's Python whether the environment is for it.
    return {**folders, **own} if any(own.values()) or not serves_all else folders


def _key(folders: Folders) -> str:
    """All that decides the bytes of an environment: its wheels, and the code that packs them."""
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


def _reuse(kept: Path, file: Path) -> EnvironmentReport | None:
    """The environment as it was packed before; one that was damaged since is packed again."""
    try:
        report = EnvironmentReport.model_validate_json((kept / REPORT_NAME).read_bytes())
        shutil.copyfile(kept / ARCHIVE_NAME, file)
    except (FileNotFoundError, ValueError):
        return None
    return report if sha256_of(file) == report.sha256 else None


def _pack(folders: Folders, kept: Path, file: Path) -> EnvironmentReport:
    """Pack beside the place where it is kept, and move it there when it is whole."""
    new = kept.with_name(f".{kept.name}.new")
    for leftover in (new, kept):
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
    new.rename(kept)
    shutil.copyfile(kept / ARCHIVE_NAME, file)
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
    """Write what makes the folder a virtual environment of the images' Python without being activated.

    The files have the names that `bin/activate` writes, so that activating replaces them.
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
            f"{wheel} is damaged: {error}", remedy=f"delete {wheel.parent}; it is fetched again"
        ) from error


def _place(name: str) -> str | None:
    """Where a wheel's file goes below packages/, or None if importing never needs it."""
    top, _, rest = name.partition("/")
    if top.endswith(".data"):
        kind = next((kind for kind in IMPORTED_DATA if rest.startswith(kind)), None)
        if kind is None:
            return None
        name = rest.removeprefix(kind)
    if name.endswith(UNNEEDED) or UNNEEDED_FOLDERS & set(name.split("/")):
        return None
    return name
