"""JSON is parsed by `tritonstack.base.files` only: every other parser fails on deep nesting."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("tritonstack", "model_build", "stacks", "packages")
ALONE = (
    "tritonstack/base/files.py",
    "model_build/served/",
    "tritonstack/triton/backends/",
    "tritonstack/triton/inside/supervisor.py",
    "packages/local_cloud/tritonstack_local/codebuild/machines/agent.py",
)
"""The reader, and programs without this package, which read what the build or their parent wrote."""
CATCHING = ("tritonstack/client/", "packages/local_cloud/tritonstack_local/state/log_files.py")
"""The client, which has no other package, and a reader of many short lines: both catch RecursionError."""


def parsers(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that parse JSON, or import a function that does."""
    for node in ast.walk(tree):
        is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if is_attribute and node.value.id == "json" and node.attr in ("load", "loads", "JSONDecoder"):
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "json":
            yield node.lineno


def caught(tree: ast.AST) -> set[int]:
    """Return the lines of `try` statements that catch RecursionError."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        and any("RecursionError" in ast.dump(handler.type) for handler in node.handlers if handler.type)
        for statement in node.body
        for line in range(statement.lineno, (statement.end_lineno or 0) + 1)
    }


def offences(source: str, *, catching: bool) -> list[int]:
    if not re.search(r"\bjson\.(load|JSONDecoder)|from json\b", source):
        return []  # most files, which then need no parsing
    tree = ast.parse(source)
    return sorted(set(parsers(tree)) - (caught(tree) if catching else set()))


def test_all_json_is_read_with_limits():
    found = []
    for folder in PRODUCT:
        for file in sorted(Path(ROOT, folder).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            if not name.startswith(ALONE) and "/tests/" not in name:
                lines = offences(file.read_text(encoding="utf-8"), catching=name.startswith(CATCHING))
                found += [f"{name}:{line}" for line in lines]
    assert found == []
