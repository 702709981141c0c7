"""Run the command line of an installation with the packages of requirements.txt only."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


LISTED = {
    _plain(name)
    for name in re.findall(r"^([\w.-]+)(?:\[.*\])?==", (ROOT / "requirements.txt").read_text(), flags=re.M)
} | {"tritonstack"}
ABSENT = {
    module
    for module, distributions in packages_distributions().items()
    if not LISTED & set(map(_plain, distributions))
}


class Lean(PathFinder):
    """Import only the listed packages."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Report every other package as missing."""
        return None if fullname.partition(".")[0] in ABSENT else super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *context: Any) -> Iterator[Distribution]:  # type: ignore[override]
        """Yield only the listed distributions: their entry points are those of an installation."""
        return (found for found in super().find_distributions(*context) if _plain(found.name) in LISTED)


if __name__ == "__main__":
    sys.meta_path[:] = [Lean if finder is PathFinder else finder for finder in sys.meta_path]
    from tritonstack.cli.main import main

    main()
