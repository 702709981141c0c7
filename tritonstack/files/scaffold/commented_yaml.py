"""Write the keys of a record as YAML, with comments from its JSON Schema."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from tritonstack.base.error_kinds import NameInUseError, NotApplicableError
from tritonstack.base.yaml import Record, TextualDumper, load_yaml
from tritonstack.files.scaffold.yaml_edits import ComposedText, compose_text

_KEY = "endpoints"
_STEP = "  "


def insert_endpoint(text: str, name: str, body: str) -> str:
    """Return an environment file with one more endpoint. The file must be valid."""
    load_yaml(text)  # within the limits
    composed = compose_text(text)
    assert isinstance(composed.root, yaml.MappingNode)  # noqa: S101 - the file is valid
    sections = [value for key, value in composed.root.value if key.value == _KEY]
    entry = f"{name}:\n{textwrap.indent(body, _STEP)}"
    if not sections:
        section = f"{_KEY}:\n{textwrap.indent(entry, _STEP)}"
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
        return _inserted(emptied, emptied.line_end(len(head)), textwrap.indent(entry, _STEP))
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


_WIDTH = 100
_INDENT = "  "
Schema = Mapping[str, Any]


def commented_yaml(
    record: type[Record], values: Mapping[str, Any], *, optional: Sequence[str] | None = None
) -> str:
    """Return the given values with their descriptions, and optional keys as comments below them.

    `optional` selects those keys; None selects all. A nested mapping in `values` whose key is a record or a
    union of records is written in the same way, with all its optional keys.
    """
    schema = record.model_json_schema()
    return "\n".join(_lines(schema, schema.get("$defs", {}), values, optional)) + "\n"


def _lines(
    schema: Schema, definitions: Schema, values: Mapping[str, Any], optional: Sequence[str] | None
) -> Iterator[str]:
    properties = schema["properties"]
    for key, value in values.items():
        yield from _comment(properties[key], definitions)
        nested = _record_of(properties[key], definitions, value)
        if nested is None:
            yield from _entry(key, value)
        else:
            yield f"{key}:"
            yield from (_INDENT + line for line in _lines(nested, definitions, value, None))
    for key in properties if optional is None else optional:
        if key not in values:
            yield from _comment(properties[key], definitions)
            yield f"# {key}: {_example(properties[key], definitions)}"


def _entry(key: str, value: Any) -> list[str]:
    """Return a key with its value, with lists in block style."""
    text = yaml.dump({key: value}, Dumper=TextualDumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    if isinstance(value, str | int | float) or not value:
        return text.splitlines()
    body = [f"{_INDENT}- {_flow(item)}" for item in value] if isinstance(value, list | tuple) else None
    return [f"{key}:", *body] if body else [f"{key}: {_flow(value)}"]


def _flow(value: Any) -> str:
    text = yaml.dump(
        value,
        Dumper=TextualDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=True,
        width=10_000,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _comment(schema: Schema, definitions: Schema) -> list[str]:
    """Return the description of a key with its choices, limits, and default."""
    branch = _only(schema, definitions)
    description = schema.get("description") or branch.get("description")
    parts = [" ".join(description.split())] if description else []
    if choices := branch.get("enum"):
        parts.append(f"Choices: {', '.join(map(str, choices))}.")
    elif limits := _limits(branch):
        parts.append(f"Range: {limits}.")
    default = schema.get("default")
    if isinstance(default, bool | int | float | str):
        parts.append(f"Default: {_flow(default)}.")
    if "properties" in branch:
        parts.append(f"Keys: {', '.join(branch['properties'])}.")
    return [f"# {line}" for line in textwrap.wrap(" ".join(parts), _WIDTH - 2, break_on_hyphens=False)]


def _example(schema: Schema, definitions: Schema) -> str:
    """Return the default of a key, or the form of its value."""
    default = schema.get("default")
    if isinstance(default, bool | int | float | str):
        return _flow(default)
    branch = _only(schema, definitions)
    if choices := branch.get("enum"):
        return _flow(choices[0])
    if "oneOf" in branch or "properties" in branch or branch.get("type") == "object":
        return "{}"
    return {"boolean": "true", "array": "[]"}.get(str(branch.get("type")), f"<{branch.get('type', 'value')}>")


def _limits(branch: Schema) -> str:
    low, high = branch.get("minimum"), branch.get("maximum")
    above, below = branch.get("exclusiveMinimum"), branch.get("exclusiveMaximum")
    texts = {
        "at least {}": low if high is None else None,
        "at most {}": high if low is None else None,
        "greater than {}": above,
        "less than {}": below,
    }
    between = [f"{low} to {high}"] if low is not None and high is not None else []
    return ", ".join([*between, *(text.format(n) for text, n in texts.items() if n is not None)])


def _only(schema: Schema, definitions: Schema) -> Schema:
    """Return the first branch of a schema that is not null, without references."""
    branch = next((option for option in schema.get("anyOf", ()) if option.get("type") != "null"), schema)
    name = str(branch.get("$ref", "")).rpartition("/")[2]
    return definitions[name] if name else branch


def _record_of(schema: Schema, definitions: Schema, value: Any) -> Schema | None:
    """Return the schema of a nested record, which its discriminator selects in a union."""
    branch = _only(schema, definitions)
    if mapping := branch.get("discriminator", {}).get("mapping"):
        key = branch["discriminator"]["propertyName"]
        return definitions[mapping[value[key]].rpartition("/")[2]]  # type: ignore[no-any-return]
    return branch if "properties" in branch and isinstance(value, Mapping) else None
