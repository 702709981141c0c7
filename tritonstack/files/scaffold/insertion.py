"""Insert an endpoint into the text of an environment file, and keep its comments and line endings."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import yaml

from tritonstack.base.error_kinds import NameInUseError, NotApplicableError
from tritonstack.base.yaml import load_yaml
from tritonstack.files.scaffold.yaml_edits import ComposedText, compose_text

_KEY = "endpoints"
_INDENT = "  "


def insert_endpoint(text: str, name: str, body: str) -> str:
    """Return an environment file with one more endpoint. The file must be valid."""
    load_yaml(text)  # within the limits
    composed = compose_text(text)
    assert isinstance(composed.root, yaml.MappingNode)  # noqa: S101 - the file is valid
    sections = [value for key, value in composed.root.value if key.value == _KEY]
    entry = f"{name}:\n{textwrap.indent(body, _INDENT)}"
    if not sections:
        section = f"{_KEY}:\n{textwrap.indent(entry, _INDENT)}"
        return _inserted(composed, composed.line_end(len(text.rstrip())), section)
    node = sections[0]
    if name in (key.value for key, _ in node.value):
        raise NameInUseError(
            f"the environment already has an endpoint {name!r}",
            remedy="choose another name, or edit the file",
        )
    if not node.value:  # {}
        head = text[: node.start_mark.index].rstrip()
        emptied = replace(composed, text=head + text[node.end_mark.index :])
        return _inserted(emptied, emptied.line_end(len(head)), textwrap.indent(entry, _INDENT))
    if node.flow_style:
        raise NotApplicableError(
            f"{_KEY} is on one line, which leaves no place for comments",
            remedy=f"write each endpoint on lines of its own below `{_KEY}:`",
        )
    indent = " " * node.value[0][0].start_mark.column
    return _inserted(composed, composed.block_end(node), textwrap.indent(entry, indent))


def _inserted(composed: ComposedText, place: int, lines: str) -> str:
    """Return a text with further lines from an index on."""
    head = composed.text[:place]
    missing_break = "" if head.endswith("\n") else "\n"
    return head + f"{missing_break}{lines}".replace("\n", composed.newline) + composed.text[place:]
