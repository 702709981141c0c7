"""Load what shell completion needs of a command: its parameters, without the imports of its body.

The body of `deploy` imports the AWS SDK, which takes longer to load than a person waits for a completion.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_IMPORT_ROOT = Path(__file__).parents[2]


def load_signature(module_name: str, name: str) -> Any:
    """Return the function or Typer application of a command; its functions do nothing."""
    file = _IMPORT_ROOT.joinpath(*module_name.split(".")).with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tree.body = list(_needed(tree.body, name))[::-1]
    module: dict[str, Any] = {"__name__": module_name}
    exec(compile(ast.fix_missing_locations(tree), name, "exec"), module)  # noqa: S102 - the package's own source
    return module[name]


def _needed(statements: list[ast.stmt], name: str) -> Iterator[ast.stmt]:
    """Yield what the parameters of a command need, last statement first."""
    required = {name}
    for statement in reversed(statements):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            aliases = [
                alias for alias in statement.names if future or (alias.asname or alias.name) in required
            ]
            if aliases:
                statement.names = aliases
                yield statement
        elif required & _bound(statement):
            if isinstance(statement, ast.FunctionDef):
                statement.body = [ast.Pass()]
            required |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            yield statement


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement defines, or the application that it adds a command to."""
    match statement:
        case ast.FunctionDef(name=name, decorator_list=decorators):
            nodes = [node for decorator in decorators for node in ast.walk(decorator)]
            return {name, *(node.id for node in nodes if isinstance(node, ast.Name))}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()
