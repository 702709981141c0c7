"""The modules of the product, from their source."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Module:
    """A module of the product."""

    name: str
    tree: ast.Module
    is_package: bool


def module_files(*roots: Path) -> dict[str, Path]:
    """Return the files of the modules below some packages, by name.

    Files that projects are made from are no modules.
    """
    files = {}
    for root in roots:
        for file in sorted(root.rglob("*.py")):
            parts = [*file.relative_to(root.parent).parent.parts, file.stem]
            if not all(
                (root.parent.joinpath(*parts[:end]) / "__init__.py").exists() for end in range(1, len(parts))
            ):
                continue
            files[".".join(parts[:-1] if is_package(file) else parts)] = file
    return files


def is_package(file: Path) -> bool:
    """Return whether a module's file makes its folder a package."""
    return file.name == "__init__.py"


def read_modules(*roots: Path) -> dict[str, Module]:
    """Return the modules below some packages, by name."""
    return {
        name: Module(name, ast.parse(file.read_text()), is_package(file))
        for name, file in module_files(*roots).items()
    }
