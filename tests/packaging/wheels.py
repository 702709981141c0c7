"""Build the project's wheels and install them into environments of their own, without any download."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.paths import find_project

ROOT = find_project(Path(__file__).parent).root
SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])
PROJECTS = {
    "tritonstack": ROOT,
    "tritonstack_local": ROOT / "packages" / "local_cloud",
    "tritonstack_sizing": ROOT / "packages" / "sizing",
}


def build_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of a project from a copy of its files in git, new files included."""
    source = folder / f"{project.name}-source"
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "."],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listing.stdout.split("\0")):
        if (project / name).is_file() and not name.startswith(("docs/", "tests/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, source / name)
    output = folder / f"{project.name}-wheel"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"]
    command = [*pip, "--no-deps", "--no-build-isolation", f"--wheel-dir={output}", str(source)]
    subprocess.run(command, check=True, timeout=120)
    (wheel,) = output.glob("*.whl")
    return wheel


def tracked(*folders: str) -> set[str]:
    """Return the files in some folders that git has or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in listing.stdout.splitlines() if (ROOT / name).is_file()}


@dataclass(frozen=True)
class Installed:
    """A virtual environment with wheels."""

    folder: Path

    @property
    def bin(self) -> Path:
        """Return the folder with the console scripts."""
        return self.folder / "bin"

    @property
    def site_packages(self) -> Path:
        """Return where the wheels are installed."""
        (folder,) = self.folder.glob("lib/python3*/site-packages")
        return folder

    def run(
        self, *command: str, cwd: Path, timeout: float = 120, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment."""
        inherited = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("AWS_", "CDK_", "PYTHON", "TRITONSTACK_", "VIRTUAL_ENV"))
        }
        path = f"{self.bin}{os.pathsep}{inherited['PATH']}"
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd,
            env={**inherited, "PATH": path, "COLUMNS": "200", **variables},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def install(folder: Path, wheels: Iterable[Path]) -> Installed:
    """Install wheels, and nothing that they depend on."""
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", f"--python={folder}/bin/python"]
    arguments = ["install", "--quiet", "--no-deps", "--no-index", *map(str, wheels)]
    subprocess.run([*pip, *arguments], check=True, timeout=120)
    return Installed(folder)


def borrow_everything(environment: Installed) -> None:
    """Let an environment import the packages of this one; the wheels' own packages come first."""
    (environment.site_packages / "borrowed.pth").write_text(f"{SITE_PACKAGES}\n")


def borrow(environment: Installed, *distributions: str) -> None:
    """Link these distributions of this environment, and all that they require without extras."""
    for name in _with_requirements(distributions):
        for file in importlib.metadata.distribution(name).files or ():
            top = file.parts[0]
            link = environment.site_packages / top
            if top != ".." and not link.exists():
                link.symlink_to(SITE_PACKAGES / top)


def _with_requirements(names: Iterable[str]) -> set[str]:
    closure: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in closure and _is_installed(name):
            closure.add(name)
            needs = importlib.metadata.requires(name) or []
            queue += [re.split(r"[^\w.-]", need)[0] for need in needs if "extra ==" not in need]
    return closure


def _is_installed(name: str) -> bool:
    """Return False for a requirement of another Python or platform."""
    return next(iter(importlib.metadata.distributions(name=name)), None) is not None
