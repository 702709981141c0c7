"""Distributions of the installing Python's own environment, linked into a folder that one backend sees.

PyTorch is three times as large as the rest of the server, and who builds models has it already: the stand-ins
for backends use that one. NumPy is never linked, because the server has the one that its stub works with.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SERVERS_OWN = frozenset({"numpy"})


@dataclass(frozen=True)
class LinkedPackages:
    """A distribution and all that it needs, as they lie in this Python's environment."""

    versions: Mapping[str, str]
    entries: tuple[Path, ...]
    """The folders and modules in site-packages that belong to them."""

    @property
    def identity(self) -> str:
        """What an installation that links to them depends on: their versions and places."""
        versions = ",".join(f"{name}=={version}" for name, version in sorted(self.versions.items()))
        return f"{versions} in {','.join(map(str, self.sources))}"

    @property
    def sources(self) -> tuple[Path, ...]:
        """The folders that the links lead into."""
        return tuple(sorted({entry.parent for entry in self.entries}))

    def link_into(self, folder: Path) -> None:
        """Make `folder` a site-packages of these and no others."""
        folder.mkdir(parents=True)
        for entry in self.entries:
            (folder / entry.name).symlink_to(entry)


def find_packages(distribution: str) -> LinkedPackages | None:
    """The distribution and its dependencies, or None if one of them is not installed here."""
    found: dict[str, importlib.metadata.Distribution] = {}
    wanted = [distribution]
    while wanted:
        name = wanted.pop()
        if name in found or name in SERVERS_OWN:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            return None
        wanted += _dependencies(found[name])
    entries = sorted({entry for item in found.values() for entry in _entries(item)})
    return LinkedPackages({name: item.version for name, item in found.items()}, tuple(entries))


def _dependencies(item: importlib.metadata.Distribution) -> Iterator[str]:
    # Comes with whatever brought the distribution; the Python that only installs the server may lack it.
    from packaging.requirements import Requirement  # noqa: PLC0415
    from packaging.utils import canonicalize_name  # noqa: PLC0415

    for line in item.requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _entries(item: importlib.metadata.Distribution) -> Iterator[Path]:
    """Its top-level names in site-packages; programs and manuals lie outside and are not needed."""
    names = {file.parts[0] for file in item.files or [] if file.parts[0] not in ("..", "__pycache__")}
    for name in names:
        yield Path(str(item.locate_file(name))).resolve()
