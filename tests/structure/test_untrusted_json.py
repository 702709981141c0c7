"""Files are read as JSON by `tritonstack.base.files` only: every other parser fails on deep nesting."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("tritonstack", "model_build", "stacks", "packages/local_cloud/tritonstack_local")
READER = "tritonstack/base/files.py"
IN_TRITON = ("model_build/served/", "tritonstack/runtime/backends/")
"""Programs that run inside Triton, without this package, and read what the build wrote."""
STRICT = ("model_build/", "tritonstack/project/")
"""Packages that read other people's files, and parse nothing else."""
READS = {"read", "read_text", "read_bytes", "get_data"}


def parsers(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "json" and node.func.attr in ("load", "loads"):
                yield node, node.func.attr


def reads_file(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in READS
        for part in ast.walk(node)
    )


def offences(source: str, *, strict: bool) -> list[int]:
    """Return the lines that parse a file, or a variable that was read from one in the same function."""
    tree = ast.parse(source)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)] or [tree]
    lines = set()
    for scope in [tree, *scopes]:
        read = {
            target.id
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign) and scope is not tree and reads_file(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call, name in parsers(scope):
            names = {part.id for part in ast.walk(call) if isinstance(part, ast.Name)}
            if strict or name == "load" or reads_file(call) or names & read:
                lines.add(call.lineno)
    imports = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "json" and node.names
        for alias in node.names
        if alias.name in ("load", "loads")
    }
    return sorted(lines | imports)


def test_every_file_is_read_with_limits() -> None:
    found = []
    for folder in PRODUCT:
        for file in sorted(Path(ROOT, folder).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            if name != READER and not name.startswith(IN_TRITON):
                lines = offences(file.read_text(encoding="utf-8"), strict=name.startswith(STRICT))
                found += [f"{name}:{line}" for line in lines]
    assert found == []


def test_the_rule_finds_what_it_forbids() -> None:
    assert offences("import json\njson.load(open('x'))", strict=False) == [2]
    assert offences("json.loads(file.read_text())", strict=False) == [1]
    assert offences("def f(file):\n    text = file.read_bytes()\n    json.loads(text)", strict=False) == [3]
    assert offences("from json import loads", strict=False) == [1]
    assert offences("json.loads(text)", strict=False) == []
    assert offences("json.loads(text)", strict=True) == [1]
