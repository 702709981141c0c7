"""Build the stand-in for SageMaker's Triton image from files of this machine.

Builds use no registry: the image contains this machine's shell, tools, Python, and C library, the local
Triton under /opt/tritonserver, and an entry point and a `serve` that behave like the original's. Its Python
installs packages only from a folder of wheels in the image, so that images can be built on it without a
network.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import docker
import pip

from tritonstack.triton.installation import TritonInstallation

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
REPOSITORY = "stand-in-for-sagemaker-tritonserver"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
WHEELS = "opt/stand-in/wheels"

_TOOLS = """
    bash sh cat chmod chown cp cut date dirname env find grep groupadd head id install ldconfig ln ls mkdir
    mktemp mv rm rmdir sed sha256sum sleep sort stat tail tar test touch tr true uname useradd wc
"""
_BACKENDS = ("python", "onnxruntime")
"""The backends that models of the tests need; the others link to gigabytes of this machine's packages."""
_LEFT_OUT = re.compile(
    r"/(test|tests|idlelib|tkinter|turtledemo|lib2to3|site-packages|dist-packages|__pycache__)/"
    r"|/config-|\.a$|\.pyc$"
)
_LIBRARY = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x", re.MULTILINE)
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
    "etc/group": "root:x:0:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\n",
    "etc/gshadow": "root:*::\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "etc/os-release": 'ID=stand-in\nNAME="stand-in for Ubuntu"\nVERSION_ID="0"\n',
    "etc/pip.conf": f"[global]\nno-index = true\nfind-links = /{WHEELS}\n",
}
_FOLDERS = ("root", "home", "run", "proc", "sys", "dev", "opt/ml", "usr/local/bin", *_LINKS.values())
_OPEN_FOLDERS = ("tmp", "var/tmp")


class StandInBase:
    """One version of the image; its name depends on all of its inputs."""

    def __init__(self, *, installation: TritonInstallation, wheels: Path) -> None:
        self._installation = installation
        self._wheels = wheels

    @property
    def name(self) -> str:
        """Return the image's name."""
        digest = hashlib.sha256((self._installation.root / "installation.json").read_bytes())
        digest.update(sys.version.encode())
        files = [
            file for folder in (HERE, ROOT / "tritonstack" / "triton") for file in sorted(folder.rglob("*"))
        ]
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(file.read_bytes())
        for wheel in sorted(self._wheels.glob("*.whl")):
            digest.update(wheel.name.encode())
        return f"{REPOSITORY}:{digest.hexdigest()[:12]}"

    def build(self, engine: docker.DockerClient) -> str:
        """Build the image unless the engine has it; return its name."""
        if engine.images.list(self.name):
            return self.name
        with tempfile.TemporaryFile() as context:
            with tarfile.open(fileobj=context, mode="w") as tar:
                tar.add(HERE / "Dockerfile", "Dockerfile")
                self._add_root(_Root(tar))
            context.seek(0)
            engine.images.build(
                fileobj=context,
                custom_context=True,
                tag=self.name,
                buildargs={"TRITON_RELEASE": self._installation.release},
                rm=True,
                network_mode="none",
            )
        return self.name

    def _add_root(self, root: _Root) -> None:
        self._add_system(root)
        self._add_python(root)
        self._add_server(root)
        for name in ("", "/base", "/triton", "/triton/inside"):
            package = f"tritonstack{name}"
            for file in (ROOT / package).glob("*.py"):
                root.add(file, f"opt/stand-in/{package}/{file.name}")
        for wheel in self._wheels.glob("*.whl"):
            root.add(wheel, f"{WHEELS}/{wheel.name}")
        root.add_libraries()

    def _add_system(self, root: _Root) -> None:
        for name in _FOLDERS:
            root.add_folder(name)
        for name in _OPEN_FOLDERS:
            root.add_folder(name, mode=0o1777)
        for name, target in _LINKS.items():
            root.add_link(name, target)
        for name, text in _TEXTS.items():
            root.add_text(name, text)
        root.add_tree(HERE / "files", "")
        for tool in _TOOLS.split():
            root.add_program(_found(tool), f"usr/bin/{tool}")

    def _add_python(self, root: _Root) -> None:
        home = Path(sysconfig.get_path("stdlib"))
        root.add_program(Path(sys.base_prefix) / "bin" / PYTHON, f"usr/bin/{PYTHON}")
        root.add_link("usr/bin/python3", PYTHON)
        root.add_tree(home, f"usr/lib/{PYTHON}")
        bundled = Path("/usr/share/python-wheels")  # where Debian's ensurepip finds pip
        if bundled.is_dir():
            root.add_tree(bundled, "usr/share/python-wheels")
        packages = f"usr/lib/{PYTHON}/site-packages"
        root.add_tree(Path(pip.__file__).parent, f"{packages}/pip")
        ours = _site_packages(self._installation)
        for entry in sorted(ours.iterdir()):
            if entry.is_dir() and not entry.name.startswith(("pytriton", "nvidia_pytriton", "bin")):
                root.add_tree(entry, f"{packages}/{entry.name}")

    def _add_server(self, root: _Root) -> None:
        here, packages = self._installation, _site_packages(self._installation)
        home = "opt/tritonserver"
        root.add_program(here.executable, f"{home}/bin/tritonserver")
        for library in sorted((packages / "nvidia_pytriton.libs").iterdir()):
            root.add_program(library, f"{home}/lib/{library.name}")
        for backend in _BACKENDS:
            for file in sorted((here.backend_directory / backend).iterdir()):
                if file.is_file():
                    root.add_program(file, f"{home}/backends/{backend}/{file.name}")
        root.add_tree(here.cache_directory, f"{home}/caches")
        root.add_text(f"{home}/TRITON_VERSION", here.version + "\n")


class _Root:
    """The image's root folder, written directly into the build context."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._there: set[str] = set()
        self._programs: list[Path] = []

    def add(self, file: Path, name: str) -> None:
        """Add one file unchanged."""
        if name in self._there:
            return
        self._there.add(name)
        info = self._tar.gettarinfo(file.resolve(), f"root/{name}")
        info.uid = info.gid = 0
        info.type, info.linkname = tarfile.REGTYPE, ""  # the tar knows files of one inode as links
        info.size = file.stat().st_size
        with file.open("rb") as content:
            self._tar.addfile(info, content)

    def add_program(self, file: Path, name: str) -> None:
        """Add a program or library; its own libraries are added at the end."""
        self.add(file, name)
        self._programs.append(file.resolve())

    def add_tree(self, folder: Path, name: str) -> None:
        """Add a folder without development files."""
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not _LEFT_OUT.search(f"/{file.relative_to(folder)}"):
                place = str(Path(name, file.relative_to(folder)))
                (self.add_program if ".so" in file.name else self.add)(file, place)

    def add_text(self, name: str, text: str) -> None:
        """Add a generated file."""
        info = tarfile.TarInfo(f"root/{name}")
        info.size, info.mode = len(text.encode()), 0o644
        self._tar.addfile(info, io.BytesIO(text.encode()))

    def add_folder(self, name: str, mode: int = 0o755) -> None:
        """Add an empty folder."""
        info = tarfile.TarInfo(f"root/{name}")
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(info)

    def add_link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        info = tarfile.TarInfo(f"root/{name}")
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(info)

    def add_libraries(self) -> None:
        """Add the libraries of all programs to the loader's default path."""
        libraries: dict[str, Path] = {}
        for name, file in _libraries(self._programs):
            libraries.setdefault(name, file)  # the interpreter's come first: another libpython may lie about
        usual = libraries["libc.so.6"].parent
        for name, file in libraries.items():
            place = file.parent if file.is_relative_to("/usr") or file.is_relative_to("/lib64") else usual
            self.add(file, f"{str(_merged(place / name)).lstrip('/')}")


def _libraries(programs: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Return the libraries of these programs, by the names that the loader looks up."""
    listing = subprocess.run(
        ["ldd", *map(str, programs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    for name, path in _LIBRARY.findall(listing.stdout):
        if "nvidia_pytriton.libs" not in path and ".libs/" not in path:
            yield name or path, Path(path)


def _merged(path: Path) -> Path:
    """Return the path in a root whose /lib and /lib64 are under /usr."""
    return path if path.is_relative_to("/usr") else Path("/usr") / path.relative_to("/")


def _site_packages(installation: TritonInstallation) -> Path:
    return next((installation.root / "python/lib").glob("python3.*")) / "site-packages"


def _found(tool: str) -> Path:
    path = shutil.which(tool)
    assert path is not None, f"this machine has no {tool}, which the stand-in needs"
    return Path(path)
