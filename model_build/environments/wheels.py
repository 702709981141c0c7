"""Resolve pinned requirements and their dependencies to wheels.

pip resolves for another Python, but evaluates dependency markers (`python_version < "3.11"`) for its own. So
this module checks the closure and asks pip again for what is missing.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from model_build.errors import EnvironmentBuildError
from tritonstack.base.error_kinds import PackagesError
from tritonstack.base.extras import INDEX_REMEDY, pip_command, unreachable_index
from tritonstack.base.files import only_one
from tritonstack.files.sources.contents import REMEDY, requirement_lines

NEWEST_GLIBC = 35
"""Triton's images are Ubuntu 22.04 (glibc 2.35) or newer."""
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(NEWEST_GLIBC, 4, -1)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"),
)
NUMPY = "numpy"
NUMPY_OF_IMAGES = "numpy<2"
"""NumPy constraint for resolving, if the image's own NumPy is used."""
_VERSIONS = re.compile(r" \(from versions: [^)]*\)")
_LINE_OF_FILE = re.compile(r"-r \S+ \(line (\d+)\)")
_LONGEST_REASON = 300
NUMPY_1_UNTIL = 12
"""The last minor version of Python 3 with NumPy 1 wheels."""


@dataclass(frozen=True)
class Pinned:
    """One line of a requirements file."""

    requirement: Requirement
    hashes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The normalized distribution name."""
        return canonicalize_name(self.requirement.name)

    def __str__(self) -> str:
        return " ".join([str(self.requirement), *(f"--hash={value}" for value in self.hashes)])

    def without_marker(self) -> str:
        """Return the line for pip, which would evaluate the marker for the wrong Python."""
        extras = f"[{','.join(sorted(self.requirement.extras))}]" if self.requirement.extras else ""
        line = f"{self.requirement.name}{extras}{self.requirement.specifier}"
        return " ".join([line, *(f"--hash={value}" for value in self.hashes)])


def read_requirements(text: str) -> tuple[str, ...]:
    """Read a requirements file; raise EnvironmentBuildError for lines without an exact version."""
    return tuple(str(parse_pinned(line)) for _, line in requirement_lines(text))


def parse_pinned(line: str) -> Pinned:
    """Parse one requirement with an exact version, with or without hashes."""
    text, *hashes = (part.strip() for part in line.split("--hash="))
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        raise EnvironmentBuildError(
            f"{line!r} is not a requirement with an exact version", remedy=REMEDY, code=PackagesError.code
        ) from None
    specifiers = list(requirement.specifier)
    exact = len(specifiers) == 1 and specifiers[0].operator in ("==", "===")
    if requirement.url or not exact or "*" in specifiers[0].version:
        raise EnvironmentBuildError(f"{line!r} has no exact version", remedy=REMEDY, code=PackagesError.code)
    return Pinned(requirement, tuple(hashes))


def fetch_wheels(
    requirements: Sequence[str], *, python: str, cache_dir: Path, dependencies: bool
) -> tuple[Path, ...]:
    """Return the wheels for one Python (3.10), from the cache if present.

    Omits NumPy unless it is required by name. Without `dependencies`, only the named packages.
    """
    pinned = [parse_pinned(line) for line in requirements]
    lines = sorted(map(str, pinned))
    key = hashlib.sha256("\n".join([python, *PLATFORMS, str(dependencies), *lines]).encode())
    target = cache_dir / key.hexdigest()[:16]
    with only_one(cache_dir / f".{target.name}.lock"):
        if not target.is_dir():
            folder = cache_dir / f".{target.name}.new"
            shutil.rmtree(folder, ignore_errors=True)
            _Resolution(pinned, python, folder, dependencies).run()
            folder.rename(target)
    return tuple(sorted(target.glob("*.whl")))


def wheel_name(wheel: Path) -> str:
    """name==version of a wheel."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    return f"{name}=={version}"


def bound_python(wheel_file: str) -> str | None:
    """Return the one Python that a wheel runs on; None if it is pure or uses the stable ABI."""
    tags = parse_wheel_filename(wheel_file)[3]
    if any(tag.abi in ("abi3", "none") for tag in tags):
        return None
    return sorted(tag.interpreter for tag in tags)[0].replace("cp", "py")


class _Resolution:
    """Resolves the wheels for one Python into one folder."""

    def __init__(self, pinned: Sequence[Pinned], python: str, folder: Path, dependencies: bool) -> None:
        self._python = python
        self._folder = folder
        self._dependencies = dependencies
        self._environment = _marker_environment(python)
        self._roots = [item for item in pinned if self._applies(item.requirement.marker, frozenset())]
        self._hashed = any(item.hashes for item in pinned)
        self._brings_numpy = any(item.name == NUMPY for item in self._roots)

    def run(self) -> None:
        """Download until nothing is missing; then drop wheels that this Python does not need."""
        lines = [item.without_marker() for item in self._roots]
        self._download(lines)
        if not self._dependencies:
            return
        while missing := self._missing():
            if self._hashed:
                raise EnvironmentBuildError(
                    f"the hashed requirements lack {', '.join(missing)}, needed on Python {self._python}",
                    remedy="add them with their hashes, as `pip-compile --generate-hashes` does",
                )
            lines += missing
            shutil.rmtree(self._folder)
            self._download(lines)
        needed = {name for name, _ in self._reached()}
        for name, wheel in self._wheels().items():
            if name not in needed or (name == NUMPY and not self._brings_numpy):
                wheel.unlink()

    def _wheels(self) -> dict[str, Path]:
        return {
            canonicalize_name(parse_wheel_filename(wheel.name)[0]): wheel
            for wheel in self._folder.glob("*.whl")
        }

    def _missing(self) -> list[str]:
        wheels = self._wheels()
        return sorted({line for name, line in self._reached() if name not in wheels})

    def _reached(self) -> set[tuple[str, str]]:
        """Return all distributions needed on this Python, with their requirement lines."""
        wheels = self._wheels()
        queue = [(item.name, frozenset(item.requirement.extras), str(item)) for item in self._roots]
        visited: set[tuple[str, frozenset[str], str]] = set()
        while queue:
            need = queue.pop()
            if need in visited:
                continue
            visited.add(need)
            name, extras, _ = need
            if name in wheels:
                queue.extend(self._needs(wheels[name], extras))
        return {(name, line) for name, _, line in visited}

    def _needs(self, wheel: Path, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str], str]]:
        for line in _requires(wheel):
            requirement = Requirement(line)
            if self._applies(requirement.marker, extras):
                requirement.marker = None
                yield canonicalize_name(requirement.name), frozenset(requirement.extras), str(requirement)

    def _applies(self, marker: Marker | None, extras: frozenset[str]) -> bool:
        if marker is None:
            return True
        return any(marker.evaluate({**self._environment, "extra": extra}) for extra in (*extras, ""))

    def _download(self, lines: Iterable[str]) -> None:
        with tempfile.TemporaryDirectory(prefix="tritonstack-pip-") as temporary:
            requirements = Path(temporary) / "requirements.txt"
            asked_lines = list(lines)
            requirements.write_text("\n".join(asked_lines) + "\n")
            command = [*pip_command(), "download", "--quiet"]
            command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={self._python}"]
            command += [f"--platform={platform}" for platform in PLATFORMS]
            command += [f"--dest={self._folder}", f"--requirement={requirements}"]
            if not self._dependencies:
                command.append("--no-deps")
            elif not self._hashed and not self._brings_numpy and _minor(self._python) <= NUMPY_1_UNTIL:
                constraint = Path(temporary) / "constraint.txt"
                constraint.write_text(f"{NUMPY_OF_IMAGES}\n")
                command.append(f"--constraint={constraint}")
            self._folder.mkdir()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            log = self._folder.with_name(f"{self._folder.name.strip('.').removesuffix('.new')}.log")
            log.write_text(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
            if cause := unreachable_index(done.stderr):
                raise EnvironmentBuildError(
                    f"packages for Python {self._python}: the package index is unreachable: {cause}",
                    remedy=f"{INDEX_REMEDY}; pip log: {log}",
                )
            raise EnvironmentBuildError(
                f"packages for Python {self._python}: {_reason(done.stderr, asked_lines)}",
                remedy="choose versions with Linux x86-64 wheels for this Python, or set other Pythons in "
                f"`pythons` in model.yaml; pip log: {log}",
            )


def _reason(log: str, lines: Sequence[str]) -> str:
    """Return pip's reason in one sentence, without version lists, with requirements by name."""
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR: ")]
    reason = next((line for line in errors if line.startswith("Cannot install")), (errors or [""])[-1])
    reason = _LINE_OF_FILE.sub(lambda match: lines[int(match[1]) - 1], reason)
    return _VERSIONS.sub("", reason).strip()[:_LONGEST_REASON] or "pip failed without an error message"


def _minor(python: str) -> int:
    return int(python.partition(".")[2])


def _marker_environment(python: str) -> Mapping[str, str]:
    return {
        **{str(name): str(value) for name, value in default_environment().items()},
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def _requires(wheel: Path) -> list[str]:
    """Return the dependencies in a wheel's metadata."""
    name, version = wheel.name.split("-")[:2]
    with zipfile.ZipFile(wheel) as contents:
        metadata = zipfile.Path(contents, f"{name}-{version}.dist-info/")
        return importlib.metadata.PathDistribution(metadata).requires or []


# Packages that only some builds import: fetched by hash, and unpacked in the cache. They are not installed
# beside the others, which would import them, too: transformers imports torchvision wherever it finds it.

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
