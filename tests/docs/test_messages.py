"""Messages name only what users have: the wheel has neither documents nor the tools of this repository."""

from __future__ import annotations

import ast
from pathlib import Path

import tritonstack

PACKAGE = Path(tritonstack.__file__).parent
NOT_SHIPPED = ("docs/", "tools/", "tests/")


def messages(file: Path) -> list[str]:
    """Return the string literals of a module that a user may see."""
    tree = ast.parse(file.read_text())
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    if "commands" in file.parts:  # the docstring of a command is its help
        notes -= {
            id(node.body[0].value)
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
        }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes
    ]


def test_no_message_names_a_file_of_this_repository() -> None:
    found = [(file, text) for file in PACKAGE.rglob("*.py") for text in messages(file)]
    assert len(found) > 5000
    named = [(file.name, text) for file, text in found if text.startswith(NOT_SHIPPED)]
    named += [(file.name, text) for file, text in found for name in NOT_SHIPPED if f" {name}" in text]
    named += [(file.name, text) for file, text in found for name in NOT_SHIPPED if f"`{name}" in text]
    assert named == []
