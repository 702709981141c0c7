"""Set values in the text of a YAML file, and keep its comments and the order of its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from tritonstack.base.yaml_nodes import TextualDumper, load_yaml
from tritonstack.base.yaml_reading import value_at

_WIDTH = 10_000


class EditError(ValueError):
    """The text has a form that cannot be edited without changing something else."""


def set_value(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value at a path of keys, whose mappings are added if they are missing.

    Raise EditError if the result would not be the same data with this one change.
    """
    before = load_yaml(text)
    if value_at(before, tuple(path)) == value:
        return text
    root = yaml.compose(text, Loader=yaml.SafeLoader)  # the positions of libyaml's nodes are not exact enough
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise EditError("the file is not a mapping with a key per line")
    changed = _set(text, root, tuple(path), value)
    if load_yaml(changed) != _with(before, tuple(path), value):
        raise EditError(f"{'.'.join(path)} cannot be set without another change")
    return changed


def _set(text: str, node: yaml.MappingNode, path: tuple[str, ...], value: Any) -> str:
    found = next((child for key, child in node.value if key.value == path[0]), None)
    if found is None:
        nested = value
        for name in reversed(path[1:]):
            nested = {name: nested}
        return _insert(text, node, path[0], nested)
    if len(path) > 1 and isinstance(found, yaml.MappingNode) and found.value:
        return _set(text, found, path[1:], value)
    nested = value
    for name in reversed(path[1:]):
        nested = {name: nested}
    end = found.end_mark.index
    if isinstance(found, yaml.CollectionNode) and not found.flow_style:
        end = _end_of_block(text, found)
        return f"{text[: _after_key(text, found)]} {_flow(nested)}{text[end:]}"
    return f"{text[: found.start_mark.index]}{_flow(nested)}{text[end:]}"


def _insert(text: str, node: yaml.MappingNode, name: str, value: Any) -> str:
    """Add a key to a mapping that has others: on its line, or on a line below its last value."""
    entry = f"{name}: {_flow(value)}"
    last = node.value[-1][1]
    if node.flow_style:
        at = last.end_mark.index
        return f"{text[:at]}, {entry}{text[at:]}"
    end = _end_of_block(text, last)
    line_end = text.find("\n", end)
    at = len(text) if line_end < 0 else line_end
    if end and text[end - 1] == "\n":
        at = end - 1
    indent = " " * node.value[0][0].start_mark.column
    return f"{text[:at]}\n{indent}{entry}{text[at:]}"


def _end_of_block(text: str, node: yaml.Node) -> int:
    """Return where a value ends, without the comments and empty lines that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end_of_block(text, last[1] if isinstance(last, tuple) else last)
    end = int(node.end_mark.index)
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return len(text[:end].rstrip())
    return end


def _after_key(text: str, node: yaml.Node) -> int:
    """Return the place behind the colon before a block collection."""
    return text.rindex(":", 0, node.start_mark.index) + 1


def _flow(value: Any) -> str:
    """Return a value on one line, as in flow style."""
    text = yaml.dump(
        value,
        Dumper=TextualDumper,
        default_flow_style=True,
        width=_WIDTH,
        allow_unicode=True,
        sort_keys=False,
    )
    return text.removesuffix("\n").removesuffix("\n...").removesuffix("...").rstrip()


def _with(data: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    known = data if isinstance(data, dict) else {}
    return {**known, path[0]: _with(known.get(path[0]), path[1:], value)}
