"""Describe the CDK constructs by their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass

from constructs import Construct

from tools.reference.markdown import code, table
from tritonstack import constructs
from tritonstack.base.yaml import Record

SKIPPED = ("self", "scope", "construct_id")
PAGES = {"Scaling": "endpointsnamescaling", "ServingOptions": "endpointsname-kind-single-or-ensemble"}
"""Values that an environment file holds too, and the headings of their keys."""


def sections() -> Iterator[str]:
    """Yield a section per construct, then one per value."""
    classes = [getattr(constructs, name) for name in sorted(constructs._HOMES)]
    yield "## Constructs"
    yield from (_section(each) for each in classes if issubclass(each, Construct))
    yield "## Values"
    yield from (_section(each) for each in classes if not issubclass(each, Construct))


def _section(described: type) -> str:
    parts = [f"### {described.__name__}", inspect.cleandoc(described.__doc__ or "")]
    if issubclass(described, Record):
        parts.append(f"Its keys: [environment files](environment.md#{PAGES[described.__name__]}).")
        return "\n\n".join(parts)
    if not is_dataclass(described):
        parts.append(inspect.cleandoc(described.__init__.__doc__ or "") if described.__init__.__doc__ else "")
    notes = _field_notes(described)
    rows = [
        (code(name), code(parameter.annotation), _default(parameter), notes.get(name, ""))
        for name, parameter in inspect.signature(described.__init__).parameters.items()
        if name not in SKIPPED
    ]
    parts.append(table(("parameter", "type", "default", "meaning"), rows))
    return "\n\n".join(part for part in parts if part)


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return "required"
    return (
        "" if parameter.default is None else code(getattr(parameter.default, "name", repr(parameter.default)))
    )


def _field_notes(described: type) -> Mapping[str, str]:
    """Return the docstrings that follow the fields of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(described))).body[0]
    statements = body.body if isinstance(body, ast.ClassDef) else []
    return {
        field.target.id: note.value.value
        for field, note in itertools.pairwise(statements)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(note, ast.Expr)
        and isinstance(note.value, ast.Constant)
        and isinstance(note.value.value, str)
    }
