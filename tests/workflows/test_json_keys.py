"""The keys of JSON results are public: json_keys.json lists them, so that each change is reviewed.

`UPDATE_SNAPSHOTS=1 pytest` with this file rewrites the list.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tritonstack.operations
import tritonstack.workflows
from tests.reviewed_templates import UPDATE
from tritonstack.operations.audit.found import UnreadableResource
from tritonstack.operations.audit.report import Item, UnlistedService
from tritonstack.operations.destruction.reaping import ExpiryState
from tritonstack.operations.smoke.asking import UntestedVariant

SNAPSHOT = Path(__file__).with_name("json_keys.json")
LISTED = [ExpiryState, Item, UntestedVariant, UnlistedService, UnreadableResource]
"""Types without `to_json` whose fields are keys of lists within results."""


def _classes() -> Iterator[type]:
    """Yield the classes of workflows and operations that have their own `to_json`."""
    for package in (tritonstack.operations, tritonstack.workflows):
        folder = Path(package.__file__ or "").parent
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            module = importlib.import_module(".".join([package.__name__, *parts]).removesuffix(".__init__"))
            found = vars(module).values()
            yield from (
                one
                for one in found
                if isinstance(one, type) and one.__module__ == module.__name__ and "to_json" in vars(one)
            )


def _keys(result: Any) -> list[str]:
    """Return the keys that `to_json` writes: those in its code, and the fields of `asdict(self)`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(result.to_json)))
    keys = [
        key.value
        for node in ast.walk(tree)
        for key in (node.keys if isinstance(node, ast.Dict) else [])
        if isinstance(key, ast.Constant)
    ]
    keys += [
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.slice, ast.Constant)
    ]
    if "asdict(self)" in ast.unparse(tree):
        keys += [field.name for field in dataclasses.fields(result)]
    return keys


def test_the_keys_of_json_results_are_the_reviewed_ones() -> None:
    found = {one.__name__: _keys(one) for one in _classes()}
    assert len(found) > 20
    found |= {one.__name__: [field.name for field in dataclasses.fields(one)] for one in LISTED}
    text = json.dumps(dict(sorted(found.items())), indent=2) + "\n"
    if UPDATE in os.environ:
        SNAPSHOT.write_text(text)
    assert text == SNAPSHOT.read_text()
