"""Find a Triton server: the container's own, or the embedded one under a home.

`python -m tritonstack.triton.install` creates an embedded home (see install.py), which contains

    installation.json       the version and the inputs
    python/                 a virtual environment: the server's wheel, and the imports of the backends
    backends/               the Python backend with its stub, and this project's Python stand-ins, each
                            with links to its library
    lib/                    the libpython that the stub is linked against
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tritonstack.base.files import read_json
from tritonstack.triton.errors import TritonNotFoundError

CONTAINER_ROOT = Path("/opt/tritonserver")
RECORD_NAME = "installation.json"
RECORD_KEYS = frozenset({"version", "release", "site_packages", "outside", "missing"})
REMEDY = "run `tritonstack setup` to install the embedded server"
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
SERVER_IN_PACKAGES = Path("pytriton/tritonserver")


@dataclass(frozen=True, kw_only=True)
class TritonInstallation:
    """A tritonserver that can be started, and its environment."""

    kind: Literal["container", "embedded"]
    root: Path
    executable: Path
    version: str
    release: str
    backends: tuple[str, ...]
    backend_directory: Path
    cache_directory: Path
    path: tuple[Path, ...] = ()
    library_path: tuple[Path, ...] = ()
    outside: tuple[Path, ...] = ()
    """Folders outside the root that it needs: the interpreter's, linked libraries, an image's own."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Omitted backends, and the library that each lacked."""

    def why_no_backend(self, name: str) -> str | None:
        """Return why a backend is unavailable; None if it is available."""
        if name in self.backends:
            return None
        if name in self.missing:
            return f"this server has no {name} backend, because it was installed without {self.missing[name]}"
        return f"this server has no {name} backend; it has {', '.join(self.backends)}"

    def arguments(self) -> tuple[str, ...]:
        """Return the flags with the paths of this server's parts; the container's are built in."""
        if self.kind == "container":
            return ()
        return (f"--backend-directory={self.backend_directory}", f"--cache-directory={self.cache_directory}")

    def surround(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return a SageMaker model's variables merged into those of the image.

        The embedded server's own programs and libraries take precedence over the model's variables.
        """
        if self.kind == "container":
            return {**_image_variables(os.environ), **environment}
        return {
            "HOME": "/tmp",  # noqa: S108 - the server's own /tmp; the user's home is none of its business
            "LANG": "C.UTF-8",
            **environment,
            "PATH": _joined(*self.path, *SYSTEM_PATH, environment.get("PATH")),
            "LD_LIBRARY_PATH": _joined(*self.library_path, environment.get("LD_LIBRARY_PATH")),
        }

    def moved_to(self, root: Path) -> TritonInstallation:
        """Return the same installation with another root path."""

        def moved(path: Path) -> Path:
            return root / path.relative_to(self.root)

        return replace(
            self,
            root=root,
            executable=moved(self.executable),
            backend_directory=moved(self.backend_directory),
            cache_directory=moved(self.cache_directory),
            path=tuple(map(moved, self.path)),
            library_path=tuple(map(moved, self.library_path)),
        )


def find_installation(*, home: Path) -> TritonInstallation:
    """Return the container's server if there is one, else the embedded one under `home`."""
    if (CONTAINER_ROOT / "bin/tritonserver").is_file():
        return _container_installation(os.environ)
    return find_embedded(home=home)


def find_embedded(*, home: Path) -> TritonInstallation:
    """Return the embedded server under `home`."""
    record = read_record(home)
    if record is None:
        raise TritonNotFoundError(f"no Triton server is installed in {home}", remedy=REMEDY)
    if not record.keys() >= RECORD_KEYS:
        raise TritonNotFoundError(f"the Triton server in {home} is from another version", remedy=REMEDY)
    return _embedded_installation(home.resolve(), record)


def read_record(home: Path) -> dict[str, Any] | None:
    """Return install.py's record in `home`; None if nothing is installed there."""
    try:
        record: dict[str, Any] = read_json(home / RECORD_NAME)
    except FileNotFoundError:
        return None
    return record


def _embedded_installation(home: Path, record: Mapping[str, Any]) -> TritonInstallation:
    packages = home / record["site_packages"]
    server = packages / SERVER_IN_PACKAGES
    return TritonInstallation(
        kind="embedded",
        root=home,
        executable=server / "bin/tritonserver",
        version=record["version"],
        release=record["release"],
        backends=_backend_names(home / "backends"),
        backend_directory=home / "backends",
        cache_directory=server / "caches",
        path=(home / "python/bin",),
        library_path=(home / "lib", packages / "nvidia_pytriton.libs"),
        outside=(*map(Path, record["outside"]), *_link_targets(home / "lib")),
        missing=record["missing"],
    )


def _container_installation(environment: Mapping[str, str]) -> TritonInstallation:
    version_file = CONTAINER_ROOT / "TRITON_VERSION"
    release = environment.get("NVIDIA_TRITON_SERVER_VERSION", "")
    if not version_file.is_file() or not release:
        raise TritonNotFoundError(
            f"{CONTAINER_ROOT} has a tritonserver of unknown version",
            remedy=f"use an NVIDIA image: it has {version_file} and NVIDIA_TRITON_SERVER_VERSION",
        )
    return TritonInstallation(
        kind="container",
        root=CONTAINER_ROOT,
        executable=CONTAINER_ROOT / "bin/tritonserver",
        version=version_file.read_text().strip(),
        release=release,
        backends=_backend_names(CONTAINER_ROOT / "backends"),
        backend_directory=CONTAINER_ROOT / "backends",
        cache_directory=CONTAINER_ROOT / "caches",
        # Not /opt/ml, where the model is mounted.
        outside=tuple(entry for entry in sorted(CONTAINER_ROOT.parent.iterdir()) if entry.name != "ml"),
    )


def _link_targets(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted({entry.resolve().parent for entry in folder.iterdir()}))


def _backend_names(directory: Path) -> tuple[str, ...]:
    """Return all backends in the directory, and the ensemble scheduler, which is built in."""
    return tuple(sorted({"ensemble", *(entry.name for entry in directory.iterdir() if entry.is_dir())}))


def _image_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the container's own variables, without the credentials of the job that runs in it."""
    secret = ("AWS_", "CODEBUILD_", "HF_TOKEN")
    return {name: value for name, value in environment.items() if not name.startswith(secret)}


def _joined(*paths: Path | str | None) -> str:
    return os.pathsep.join(str(path) for path in paths if path)
