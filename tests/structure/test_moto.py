"""Tests use moto through tests/moto_aws.py: alone, it answers for the account of the last local cloud."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imports_mock_aws(file: Path) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and (node.module or "").split(".")[0] == "moto"
        and "mock_aws" in {name.name for name in node.names}
        for node in ast.walk(ast.parse(file.read_text()))
    )


def test_mock_aws_is_used_in_one_place():
    files = {file.relative_to(TESTS).as_posix() for file in TESTS.rglob("*.py") if imports_mock_aws(file)}
    assert files == {"moto_aws.py"}
