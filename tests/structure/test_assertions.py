"""Every test has an assertion that it always reaches, and no assertion that is always true."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    file for folder in ("tests", "packages/local_cloud/tests") for file in (ROOT / folder).rglob("test_*.py")
]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
RAISES = ("raises", "warns", "fail")
ALWAYS_TRUE = (ast.Constant, ast.Tuple, ast.GeneratorExp)
COMBINING = {"enumerate", "product", "range", "reversed", "sorted", "zip"}


def is_assertion(node: ast.stmt) -> bool:
    expressions: list[ast.expr] = []
    if isinstance(node, (ast.With, ast.AsyncWith)):
        expressions = [item.context_expr for item in node.items]
    elif isinstance(node, ast.Expr):
        expressions = [node.value]
    return isinstance(node, (ast.Assert, ast.Raise)) or any(
        isinstance(part, ast.Attribute) and part.attr in RAISES
        for expression in expressions
        for part in ast.walk(expression)
    )


def has_items(node: ast.expr, known: set[str]) -> bool:
    """Return whether a loop's collection is written out in the file, or is a constant of the product."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return not node.args and has_items(node.func.value, known)  # CONSTANT.items()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COMBINING:
        return all(has_items(argument, known) for argument in node.args)
    if isinstance(node, ast.Name):
        return node.id.isupper() or node.id in known
    return bool(ast.unparse(node).strip("[](){}")) and isinstance(
        node, (ast.Constant, ast.Dict, ast.List, ast.Set, ast.Tuple)
    )


@cache
def trees() -> dict[str, ast.Module]:
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in FILES}


def literals(function: ast.AST) -> set[str]:
    """Return the local variables that hold a collection written out in the test."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and has_items(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def always_asserts(body: list[ast.stmt], known: set[str]) -> bool:
    """Return whether some statements meet an assertion, whatever the loops and branches do."""
    return any(is_assertion(node) or nested_asserts(node, known) for node in body)


def nested_asserts(node: ast.stmt, known: set[str]) -> bool:
    if isinstance(node, ast.If):
        return always_asserts(node.body, known) and always_asserts(node.orelse, known)
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return has_items(node.iter, known) and always_asserts(node.body, known)
    if isinstance(node, ast.Try):
        return always_asserts([*node.body, *node.orelse, *node.finalbody], known)
    return isinstance(node, (ast.With, ast.AsyncWith)) and always_asserts(node.body, known)


def find_tests(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (n for n in ast.walk(tree) if isinstance(n, FUNCTIONS) and n.name.startswith("test_"))


def vacuous(tree: ast.AST) -> list[str]:
    """Return the tests that have assertions, all of them in loops or branches that may never run.

    Tests without an assertion of their own are left out: their helpers assert, or a call must not raise.
    """
    return [
        test.name
        for test in find_tests(tree)
        if any(is_assertion(node) for node in ast.walk(test) if isinstance(node, ast.stmt))
        and not always_asserts(test.body, literals(test))
    ]


def always_true(tree: ast.AST) -> list[str]:
    """Return the assertions that pass with any value: of a constant, a tuple, a generator, or `... >= 0`."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
        and (isinstance(node.test, ALWAYS_TRUE) or ast.unparse(node.test).endswith(" >= 0"))
    ]


def test_every_test_asserts_on_all_paths():
    assert len(FILES) > 100
    found = {file: vacuous(tree) for file, tree in trees().items()}
    assert {file: names for file, names in found.items() if names} == {}


def test_no_assertion_is_always_true():
    found = {file: always_true(tree) for file, tree in trees().items()}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for item in found(): assert item", True),
        ("if found(): assert True", True),
        ("items = found()\n for item in items: assert item", True),
        ("for item in []: assert item", True),
        ("items = found()\n assert items\n for item in items: assert item", False),
        ("for item in (1, 2): assert item", False),
        ("for item in RELEASES.values(): assert item", False),
        ("if found(): assert 1\n else: assert 2", False),
        ("with served() as one:\n  assert one", False),
        ("with pytest.raises(ValueError): found()", False),
        ("helper()", False),
    ],
)
def test_vacuous_tests_are_recognized(body, *, expected):
    assert vacuous(ast.parse(f"def test_it():\n {body}\n")) == (["test_it"] if expected else [])


@pytest.mark.parametrize(
    "line", ["assert True", "assert (x, 'message')", "assert len(x) >= 0", "assert (y for y in x)"]
)
def test_assertions_that_are_always_true_are_recognized(line):
    assert always_true(ast.parse(line)) == [ast.unparse(ast.parse(line))]
