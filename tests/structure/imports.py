"""Read which module imports which, from the source: imports inside functions and for type checkers count."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Module:
    """A module of the product."""

    name: str
    tree: ast.Module
    is_package: bool

    def imports(self, known: Mapping[str, Module]) -> set[str]:
        """Return the known modules that this one imports."""
        found = {name for node in ast.walk(self.tree) for name in self._names(node, known)}
        return (found & set(known)) - {self.name}

    def _names(self, node: ast.AST, known: Mapping[str, Module]) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join((*self._above(node.level), *filter(None, [node.module])))
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in known else base

    def _above(self, level: int) -> list[str]:
        """Return the package that a relative import of this level starts from."""
        if not level:
            return []
        parts = self.name.split(".")
        return parts[: len(parts) - level + self.is_package]


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


def import_graph(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports."""
    return {name: module.imports(modules) for name, module in modules.items()}


def sibling_graph(graph: Graph, package: str) -> dict[str, set[str]]:
    """Return which parts of a package import which other parts, at any depth."""
    parts: dict[str, set[str]] = {}
    for name, imported in graph.items():
        if part := _part(name, package):
            others = {other for target in imported if (other := _part(target, package))}
            parts.setdefault(part, set()).update(others - {part})
    return parts


def _part(name: str, package: str) -> str | None:
    return name.removeprefix(f"{package}.").partition(".")[0] if name.startswith(f"{package}.") else None


def find_cycle(graph: Graph) -> list[str]:
    """Return a shortest cycle; empty without one."""
    cycles = (cycle for start in sorted(graph) if (cycle := _cycle_from(graph, start)))
    return min(cycles, key=len, default=[])


def _cycle_from(graph: Graph, start: str) -> list[str]:
    """Return a shortest way from a node back to itself."""
    paths, seen = [[start]], {start}
    while paths:
        longer = []
        for path in paths:
            for target in sorted(graph.get(path[-1], ())):
                if target == start:
                    return [*path, start]
                if target not in seen:
                    seen.add(target)
                    longer.append([*path, target])
        paths = longer
    return []
