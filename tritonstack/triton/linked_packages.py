"""Link distributions of this Python environment into a folder that only one backend sees.

PyTorch is three times as large as the rest of the server, and model builds need it anyway, so stand-ins share
that copy. NumPy is never linked, because the server has the version that its stub requires.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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
