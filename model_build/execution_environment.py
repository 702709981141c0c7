"""The packages that a served Python model imports, as an archive that Triton unpacks and activates.

The archive brings only what Triton's image lacks; NumPy is the image's own, because Triton's stub is bound
to it. It fits itself to the image's Python when it is activated (served/adapt_environment.py), so packages
that run on every Python make an artifact that does, too; a package compiled for one Python binds it to that.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename

from catalog.releases import RELEASES
from model_build import archive
from model_build.errors import EnvironmentBuildError
from model_build.served import adapt_environment

ARCHIVE_NAME = "env.tar.gz"
PARAMETER = "EXECUTION_ENV_PATH"
PARAMETER_VALUE = f"$$TRITON_MODEL_DIRECTORY/{ARCHIVE_NAME}"
OLDEST_PYTHON = min((release.python for release in RELEASES.values()), key=lambda text: int(text[2:]))
PLATFORMS = ("manylinux_2_17_x86_64", "manylinux2014_x86_64")

# Triton's launcher runs: bash -c "source <environment>/bin/activate && exec … stub"
ACTIVATE = """\
# Sourced by Triton's Python backend. Fits this environment to the python3 of the image, and enters it.
tritonstack_environment="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
case ":$PATH:" in
    *":$tritonstack_environment/bin:"*) ;;
    *)
        python3 -I "$tritonstack_environment/adapt_environment.py" "$tritonstack_environment" || return 1
        export PATH="$tritonstack_environment/bin:$PATH"
        ;;
esac
unset tritonstack_environment PYTHONHOME
"""
# What importing never needs: types, tests, the lists that only an installer reads.
UNNEEDED = (".pyi", "/py.typed", ".dist-info/RECORD")
UNNEEDED_FOLDERS = frozenset({"tests", "__pycache__", "sboms"})


@dataclass(frozen=True)
class ExecutionEnvironment:
    """A packed environment, and the Python it is bound to: py310, or None for any."""

    file: Path
    python: str | None


def installed_requirement(distribution: str) -> str:
    """The exact version that this build uses itself, so that what is served is what was compared."""
    return f"{distribution}=={importlib.metadata.version(distribution)}"


def build_environment(
    requirements: Sequence[str], *, file: Path, cache_dir: Path, python: str | None = None
) -> ExecutionEnvironment:
    """Pack the wheels of `requirements` (exact versions, without what they depend on).

    `python` is the Python of the image, such as py310; without one, only wheels that run on the oldest
    and on every later one fit.
    """
    version = f"3.{python[3:]}" if python else OLDEST_PYTHON
    wheels = _download(requirements, version, cache_dir / "wheels")
    bound = {tag for wheel in wheels if (tag := bound_python(wheel.name))}
    if bound and python is None:
        raise EnvironmentBuildError(
            f"{', '.join(requirements)}: the wheels run on {' and '.join(sorted(bound))} only",
            remedy="ask for a target that names the Python of the image, such as cpu-py310",
        )
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".environment-") as temporary:
        folder = Path(temporary)
        _lay(folder, wheels)
        archive.pack(folder, file)
    return ExecutionEnvironment(file, python if bound else None)


def bound_python(wheel_name: str) -> str | None:
    """The one Python that a wheel runs on, or None if it is pure or uses the stable interface."""
    tags = parse_wheel_filename(wheel_name)[3]
    if any(tag.abi in ("abi3", "none") for tag in tags):
        return None
    return sorted(tag.interpreter for tag in tags)[0].replace("cp", "py")


def _download(requirements: Sequence[str], version: str, cache_dir: Path) -> list[Path]:
    """The wheels for an image's Python, from the cache if they were fetched before."""
    key = hashlib.sha256("\n".join([version, *PLATFORMS, *sorted(requirements)]).encode()).hexdigest()[:16]
    target = cache_dir / key
    if not target.is_dir():
        cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir, prefix=".fetching-") as temporary:
            folder = Path(temporary) / "wheels"
            _run_pip(requirements, version, folder)
            if not target.is_dir():
                folder.rename(target)
    return sorted(target.glob("*.whl"))


def _run_pip(requirements: Sequence[str], version: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--implementation=cp", f"--python-version={version}"]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    command += [f"--dest={folder}", *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentBuildError(
            f"the wheels of {', '.join(requirements)} for Python {version} cannot be fetched:\n"
            f"{done.stderr.strip()[-2000:]}",
            remedy="check that the package index can be reached and holds Linux x86-64 wheels of them",
        )


def _lay(folder: Path, wheels: Iterable[Path]) -> None:
    packages = folder / "packages"
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as contents:
            needed = [name for name in contents.namelist() if _is_needed(name)]
            contents.extractall(packages, members=needed)
    (folder / "bin").mkdir()
    (folder / "bin" / "activate").write_text(ACTIVATE)
    script = Path(adapt_environment.__file__)
    shutil.copyfile(script, folder / script.name)


def _is_needed(name: str) -> bool:
    return not name.endswith(UNNEEDED) and not UNNEEDED_FOLDERS & set(name.split("/"))
