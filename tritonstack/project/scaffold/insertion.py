"""Insert an endpoint into the text of an environment file, and keep its comments."""

from __future__ import annotations

import textwrap

import yaml

from tritonstack.base.errors import UsageError
from tritonstack.base.yaml_nodes import load_yaml

_KEY = "endpoints"
_INDENT = "  "


def insert_endpoint(text: str, name: str, body: str) -> str:
    """Return an environment file with one more endpoint. The file must be valid."""
    load_yaml(text)  # within the limits; its positions are not exact enough for the insertion
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("the file is not a mapping")
    found = [value for key, value in root.value if key.value == _KEY]
    entry = f"{name}:\n{textwrap.indent(body, _INDENT)}"
    if not found:
        return f"{text.rstrip()}\n{_KEY}:\n{textwrap.indent(entry, _INDENT)}"
    node = found[0]
    if name in (key.value for key, _ in node.value):
        raise UsageError(
            f"the environment already has an endpoint {name!r}",
            remedy="choose another name, or edit the file",
            code="TS911",
        )
    if not node.value:  # {}
        before, after = text[: node.start_mark.index].rstrip(), text[node.end_mark.index :]
        rest = after.partition("\n")
        return f"{before}{rest[0]}\n{textwrap.indent(entry, _INDENT)}{rest[2]}"
    if node.flow_style:
        raise UsageError(
            f"{_KEY} is on one line, which leaves no place for comments",
            remedy=f"write each endpoint on lines of its own below `{_KEY}:`",
            code="TS908",
        )
    lines = text.splitlines(keepends=True)
    last = 1 + max(_last_line(value) for _, value in node.value)
    column = node.value[0][0].start_mark.column
    while last < len(lines) and _is_comment(lines[last], beyond=column):
        last += 1
    ending = "" if lines[last - 1].endswith("\n") else "\n"
    return "".join([*lines[:last], ending, textwrap.indent(entry, " " * column), *lines[last:]])


def _is_comment(line: str, *, beyond: int) -> bool:
    """Return whether a line is a comment that is indented further than a column."""
    text = line.lstrip(" ")
    return text.startswith("#") and len(line) - len(text) > beyond


def _last_line(node: yaml.Node) -> int:
    """Return the last line of a node. The end of a block collection is the start of what follows it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        children = [child for item in node.value for child in (item if isinstance(item, tuple) else (item,))]
        return max((_last_line(child) for child in children), default=node.start_mark.line)
    ends_before = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line  # a block scalar
    return int(node.end_mark.line) - ends_before
