"""Change values in the text of a YAML file, and keep its comments and order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tritonstack.base.errors import UsageError
from tritonstack.base.yaml_nodes import TextualDumper, load_yaml

_INDENT = 2
_LINE_LENGTH = 110


@dataclass(frozen=True)
class _Edit:
    """Replace a part of a text."""

    begin: int
    end: int
    text: str


def set_value(text: str, path: Sequence[str], value: object) -> str:
    """Return a YAML text with a value at a path of keys; missing mappings are added."""
    return edit_mapping(text, path[:-1], {path[-1]: value})


def edit_mapping(text: str, path: Sequence[str], changes: Mapping[str, object]) -> str:
    """Return a YAML text with some keys of the mapping at `path` changed; None removes a key.

    The mapping is added to its parent if it is missing. Raise UsageError if the form of the file prevents
    exactly these changes.
    """
    before = load_yaml(text)
    wanted = _changed(before, path, changes)
    if wanted == before:
        return text
    try:
        edited = _edited(text, path, changes)
        is_right = load_yaml(edited) == wanted
    except yaml.YAMLError:
        is_right = False
    if not is_right:
        raise UsageError(
            f"{'.'.join((*path, *changes))} cannot be set without another change of the file",
            remedy="write its mapping with a key per line, without anchors and aliases, or change it by hand",
            code="TS908",
        )
    return edited


def _changed(data: Any, path: Sequence[str], changes: Mapping[str, object]) -> Any:
    """Return the data that the edited text must have."""
    known = dict(data) if isinstance(data, dict) else {}
    if not path:
        kept = {name: value for name, value in known.items() if name not in changes}
        return kept | {name: value for name, value in changes.items() if value is not None}
    part = _changed(known.get(path[0]), path[1:], changes)
    return known | {path[0]: part} if part or path[0] in known else known


def _edited(text: str, path: Sequence[str], changes: Mapping[str, object]) -> str:
    # The positions of libyaml's nodes are not exact enough for edits.
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, key in enumerate(path):
        found = _child(node, key)
        if found is None:
            given = {name: value for name, value in changes.items() if value is not None}
            for missing in reversed(path[depth + 1 :]):
                given = {missing: given}
            return _applied(text, _edits(text, _mapping(node), {key: given}))
        node = found
    return _applied(text, _edits(text, _mapping(node), changes))


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    return next((value for name, value in _mapping(node).value if name.value == key), None)


def _mapping(node: yaml.Node | None) -> yaml.MappingNode:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.YAMLError("not a mapping")
    return node


def _edits(text: str, node: yaml.MappingNode, changes: Mapping[str, object]) -> Iterator[_Edit]:
    if node.flow_style or not node.value:
        yield _flow_edit(text, node, changes)
        return
    column = node.value[0][0].start_mark.column
    present = {key.value: (key, value) for key, value in node.value}
    for name, value in changes.items():
        if name not in present:
            continue
        key, old = present[name]
        if value is not None and isinstance(old, yaml.ScalarNode) and not isinstance(value, dict):
            yield _Edit(old.start_mark.index, old.end_mark.index, _flow(value))
            continue
        begin = key.start_mark.index - key.start_mark.column
        if value is not None and isinstance(old, yaml.CollectionNode) and old.flow_style:
            yield _Edit(old.start_mark.index, old.end_mark.index, _flow(value))
        else:
            yield _Edit(begin, _line_end(text, _last(old)), _block(name, value, column))
    added = "".join(
        _block(name, value, column)
        for name, value in changes.items()
        if name not in present and value is not None
    )
    if added:
        end = _line_end(text, max(_last(value) for _, value in node.value))
        missing_break = "" if end == 0 or text[end - 1] == "\n" else "\n"
        yield _Edit(end, end, missing_break + added)


def _flow_edit(text: str, node: yaml.MappingNode, changes: Mapping[str, object]) -> _Edit:
    """Write a mapping in braces again."""
    begin, end = node.start_mark.index, node.end_mark.index
    old = text[begin:end]
    if "\n" in old and "#" in old:
        raise UsageError(
            f"line {node.start_mark.line + 1}: a mapping in braces has comments, which an edit would lose",
            remedy="write each key on a line of its own, without braces",
            code="TS908",
        )
    values = load_yaml(old) or {}
    for name, value in changes.items():
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value
    return _Edit(begin, end, _flow(values))


def _block(name: str, value: object, column: int) -> str:
    """Return a key with its value on lines of its own; an empty text for None."""
    if value is None:
        return ""
    indent = " " * column
    line = f"{indent}{name}: {_flow(value)}\n"
    if not isinstance(value, dict) or not value or (len(line) <= _LINE_LENGTH and not _nested(value)):
        return line
    return f"{indent}{name}:\n" + "".join(
        _block(str(key), one, column + _INDENT) for key, one in value.items()
    )


def _nested(value: Mapping[str, object]) -> bool:
    return any(isinstance(one, dict) for one in value.values())


def _flow(value: object) -> str:
    """Return a value on one line."""
    text: str = yaml.dump(
        value,
        Dumper=TextualDumper,
        default_flow_style=True,
        width=10**6,
        allow_unicode=True,
        sort_keys=False,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _last(node: yaml.Node) -> int:
    """Return the index of the last character of a node; a block collection ends with its last child."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last(last[1] if isinstance(last, tuple) else last)
    return max(int(node.start_mark.index), int(node.end_mark.index) - 1)


def _line_end(text: str, index: int) -> int:
    """Return the index after the end of a line."""
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _applied(text: str, edits: Iterator[_Edit]) -> str:
    for edit in sorted(edits, key=lambda one: one.begin, reverse=True):
        text = text[: edit.begin] + edit.text + text[edit.end :]
    return text
