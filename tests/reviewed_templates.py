"""The templates of every stack as they were reviewed, in tests/snapshots.

A file holds one stack's template, or its difference from the template of a similar stack, so that a change
common to both appears once in a review. After an intended change, `UPDATE_SNAPSHOTS=1 pytest` with the
tests that compare the templates (test_stack_snapshots.py in tests/stacks and tests/delivery) rewrites them.
"""

from __future__ import annotations

import copy
import difflib
import functools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "UPDATE_SNAPSHOTS"
ENDPOINT = "tritonstack-every-endpoint-single"
BASES = {
    "tritonstack-sample-endpoint-plain": ENDPOINT,
    "tritonstack-every-endpoint-shelf": ENDPOINT,
    "tritonstack-every-endpoint-queued": ENDPOINT,
    "tritonstack-every-endpoint-component": ENDPOINT,
    "tritonstack-every-endpoint-compared": ENDPOINT,
    "tritonstack-every-endpoint-shadowed": "tritonstack-every-endpoint-compared",
    "tritonstack-every-endpoint-rolled": ENDPOINT,
    "tritonstack-walled-endpoint-captured": ENDPOINT,
    "tritonstack-walled-foundation": "tritonstack-sample-foundation",
    "tritonstack-factory-build": "tritonstack-sample-build",
    "tritonstack-delivery-prod": "tritonstack-delivery-dev",
}
"""Stacks that are kept as the difference from another one."""
ABSENT = "(absent)"
_WIDTH = 110
INDEX = re.compile(r"\[(\d+)\]")
ITEMS = "[items]"
"""The items of a list whose length differs from the base's; `[index]` stands for an item of the base."""


def stack_names() -> list[str]:
    """Return the names of all stacks with a reviewed template."""
    return sorted(file.stem for file in SNAPSHOTS.glob("*.json"))


def reviewed_template(stack: str) -> dict[str, Any]:
    """Return a stack's reviewed template."""
    return copy.deepcopy(_read(stack))


def reviewed_templates() -> dict[str, dict[str, Any]]:
    """Return all reviewed templates by the names of their stacks."""
    return {stack: reviewed_template(stack) for stack in stack_names()}


def retaining_policy() -> str:
    """Return the DeletionPolicy of what the product retains."""
    resources = reviewed_template("tritonstack-factory-build")["Resources"].values()
    (policy,) = {resource["DeletionPolicy"] for resource in resources if "DeletionPolicy" in resource} - {
        "Delete"
    }
    return str(policy)


def compare_template(stack: str, template: dict[str, Any], *, test: str) -> None:
    """Fail with the difference if a template differs from the reviewed one, or update it on request."""
    now = _general(stack, template)
    if os.environ.get(UPDATE):
        _write(stack, now)
    before = _read_general(stack) if _file(stack).exists() else {}
    if now == before:
        return
    lines = [json.dumps(value, indent=1, sort_keys=True).splitlines() for value in (before, now)]
    difference = difflib.unified_diff(*lines, "reviewed", "now", lineterm="", n=2)
    pytest.fail(
        f"the template of {stack} differs from the reviewed one. If the change is intended, run {UPDATE}=1 "
        f"pytest {test} and commit the files.\n" + "\n".join(difference),
        pytrace=False,
    )


def difference(base: Any, value: Any) -> Any:
    """Return what `apply` needs to turn `base` into a different `value`."""
    if isinstance(base, dict) and isinstance(value, dict):
        changed = {key: difference(base.get(key), value[key]) for key in value if _differs(base, value, key)}
        return changed | {key: ABSENT for key in base if key not in value}
    if not (isinstance(base, list) and isinstance(value, list)):
        return value
    if len(base) == len(value):
        pairs = enumerate(zip(base, value, strict=True))
        return {f"[{n}]": difference(old, new) for n, (old, new) in pairs if old != new}
    items = [f"[{base.index(item)}]" if item in base else item for item in value]
    return {ITEMS: items} if items != value else value


def apply(base: Any, changes: Any) -> Any:
    """Return the value whose difference from `base` is `changes`."""
    if not isinstance(changes, dict):
        return changes
    if isinstance(base, list) and ITEMS in changes:
        return [_item(base, item) for item in changes[ITEMS]]
    if isinstance(base, list) and all(INDEX.fullmatch(key) for key in changes):
        return [apply(item, changes.get(f"[{n}]", item)) for n, item in enumerate(base)]
    result = dict(base) if isinstance(base, dict) else {}
    for key, change in changes.items():
        if change == ABSENT:
            del result[key]
        else:
            result[key] = apply(result.get(key), change)
    return result


def _item(base: list[Any], item: Any) -> Any:
    found = INDEX.fullmatch(item) if isinstance(item, str) else None
    return base[int(found[1])] if found else item


def _differs(base: dict[str, Any], value: dict[str, Any], key: str) -> bool:
    return key not in base or base[key] != value[key]


def _file(stack: str) -> Path:
    return SNAPSHOTS / f"{stack}.json"


@functools.cache
def _read(stack: str) -> dict[str, Any]:
    text = json.dumps(_read_general(stack))
    for name, placeholder in _placeholders(stack).items():
        text = text.replace(placeholder, name)
    return _with_dashboards(json.loads(text), json.dumps)


def _read_general(stack: str) -> dict[str, Any]:
    """Return a template with placeholders instead of names, and with expanded dashboards."""
    kept: dict[str, Any] = json.loads(_file(stack).read_text())
    if stack not in BASES:
        return kept
    template: dict[str, Any] = apply(_read_general(BASES[stack]), kept)
    return template


def _write(stack: str, general: dict[str, Any]) -> None:
    derived = [name for name, base in BASES.items() if base == stack and _file(name).exists()]
    templates = {name: _read_general(name) for name in derived}
    kept = difference(_read_general(BASES[stack]), general) if stack in BASES else general
    _file(stack).write_text(_as_text(kept) + "\n")
    for name, template in templates.items():
        _write(name, template)
    _read.cache_clear()


def _as_text(value: Any, depth: int = 0, reserved: int = 0) -> str:
    """Return JSON with each value on one line where it fits: a review sees values rather than brackets."""
    whole = json.dumps(value)
    if not isinstance(value, dict | list) or depth + reserved + len(whole) <= _WIDTH:
        return whole
    items = value.items() if isinstance(value, dict) else (("", item) for item in value)
    names = [(f"{json.dumps(name)}: " if isinstance(value, dict) else "", item) for name, item in items]
    lines = [f"{' ' * (depth + 1)}{name}{_as_text(item, depth + 1, len(name) + 1)}" for name, item in names]
    return f"{whole[0]}\n" + ",\n".join(lines) + f"\n{' ' * depth}{whole[-1]}"


def _general(stack: str, template: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(_with_dashboards(template, json.loads))
    for name, placeholder in _placeholders(stack).items():
        text = text.replace(name, placeholder)
    general: dict[str, Any] = json.loads(text)
    return general


def _placeholders(stack: str) -> dict[str, str]:
    """Return what stands for a stack's names, so that two stacks differ only in what they contain."""
    environment = "-".join(stack.split("-")[:2])
    return {
        stack: "{stack}",
        stack.replace("-endpoint-", "-"): "{endpoint}",
        environment: "{environment}",
    }


def _with_dashboards(template: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Convert the bodies of dashboards, which are JSON texts in a template and values in a snapshot."""
    result = copy.deepcopy(template)
    for resource in result["Resources"].values():
        body = resource.get("Properties", {}).get("DashboardBody")
        if resource["Type"] == "AWS::CloudWatch::Dashboard" and "Fn::Join" not in body:
            resource["Properties"]["DashboardBody"] = convert(body)
    return result
