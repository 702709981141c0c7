"""Messages shorten digests and commit IDs with `short_digest` and `short_commit`, to one length."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("tritonstack", "stacks", "model_build", "benchmarks", "packages/local_cloud/tritonstack_local")
LENGTHS = (8, 12)
DEFINITIONS = {"tritonstack/base/files.py", "tritonstack/base/revisions.py"}
SHORTENED = {"digest", "commit", "spec_hash", "instead_of", "live", "locked"}


def words(expression: ast.AST) -> set[str]:
    """Return the names, attributes, and keys in an expression."""
    return set(re.findall(r"\w+", ast.unparse(expression)))


def cut(tree: ast.AST) -> Iterator[str]:
    """Yield each digest or commit ID that the code shortens itself."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Slice)
            and node.slice.lower is None
            and isinstance(node.slice.upper, ast.Constant)
            and node.slice.upper.value in LENGTHS
            and words(node.value) & SHORTENED
        ):
            yield ast.unparse(node)


@pytest.mark.parametrize("root", ROOTS)
def test_no_module_shortens_a_digest_itself(root):
    files = {str(file.relative_to(ROOT)): file for file in (ROOT / root).rglob("*.py")}
    found = {name: list(cut(ast.parse(file.read_text()))) for name, file in files.items()}
    assert {name: cuts for name, cuts in found.items() if cuts and name not in DEFINITIONS} == {}
    assert all(found[name] for name in DEFINITIONS if name.startswith(f"{root}/"))


def test_a_shortened_digest_is_found():
    lines = ["entry.digest[:12]", "event['digest'][:12]", "str(digest)[:12]", "version.commit.id[:8]"]
    assert list(cut(ast.parse("\n".join(lines)))) == lines
    assert list(cut(ast.parse("uuid.uuid4().hex[:12]\nlines[:8]\ndigest[:SIZE]"))) == []
