"""Each public class name has one meaning, and each public name a use: a name for tests belongs into them."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.structure.imports import Module, read_modules

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (
    *(ROOT / name for name in ("tritonstack", "stacks", "model_build")),
    ROOT / "packages/local_cloud/tritonstack_local",
    ROOT / "packages/sizing/tritonstack_sizing",
)
USERS = ("tools/**/*.py", "benchmarks/**/*.py", "app.py", "setup.py")
"""Other files that may use a name, but define none of the product."""
CALLED_BY_OTHERS = {
    "TritonPythonModel": "Triton's Python backend",
    "TritonSerializer": "users of the SageMaker SDK",
    "TritonDeserializer": "users of the SageMaker SDK",
}
UNIMPORTED = (
    "tritonstack.cli.commands",
    "tritonstack.triton.backends",
    "model_build.served",
)
"""Packages that the command line imports by name, or that run inside of Triton."""


def defined(module: Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the public names of a module. Decorators register functions, so these count as used."""
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [] if node.decorator_list and not isinstance(node, ast.ClassDef) else [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        else:
            continue
        yield from ((name, node) for name in names if not name.startswith("_"))


def loaded(*nodes: ast.AST) -> set[str]:
    """Return the names that some code reads."""
    found = {node for top in nodes for node in ast.walk(top)}
    return {node.id for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def entry_points() -> set[tuple[str, str]]:
    """Return the modules and names by which packages plug in."""
    groups = [
        group
        for file in ROOT.glob("packages/*/pyproject.toml")
        for group in tomllib.loads(file.read_text())["project"]["entry-points"].values()
    ]
    values = [value for group in groups for value in group.values()]
    return {(module, name) for module, _, name in (value.partition(":") for value in values)}


def unused(modules: Mapping[str, Module], users: list[ast.Module]) -> set[str]:
    """Return the public names that neither their own module nor another one uses."""
    nodes = [node for tree in (*(m.tree for m in modules.values()), *users) for node in ast.walk(tree)]
    imports = {
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    } | entry_points()
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return {
        f"{module.name}.{name}"
        for module in modules.values()
        for name, definition in defined(module)
        if (module.name, name) not in imports
        and name not in attributes
        and name not in loaded(*(node for node in module.tree.body if node is not definition))
    }


def test_the_product_uses_its_public_names():
    modules = read_modules(*PRODUCT)
    users = [ast.parse(file.read_text()) for pattern in USERS for file in ROOT.glob(pattern)]
    assert len(users) > len(USERS)
    found = unused(modules, users)
    unexpected = {name for name in found if not name.startswith(UNIMPORTED)}
    assert {name for name in unexpected if name.rpartition(".")[2] not in CALLED_BY_OTHERS} == set()
    assert {name.rpartition(".")[2] for name in found} >= set(CALLED_BY_OTHERS)


def test_a_public_class_name_has_one_definition():
    definitions = [
        (node.name, module.name)
        for module in read_modules(*PRODUCT).values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    counts = Counter(name for name, _ in definitions)
    twice = {name for name, count in counts.items() if count > 1} - {"TritonPythonModel"}
    assert [pair for pair in definitions if pair[0] in twice] == []
    assert {"Session", "BuildInfra", "CloudSettings"} <= counts.keys()  # each package is read
