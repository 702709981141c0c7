"""Reading a YAML file: its plain data, and the line of each field. Not all of YAML is let in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from catalog.errors import FileProblem, InvalidFilesError

FieldPath = tuple[str | int, ...]


def read_text(file: Path) -> str:
    """What a file holds."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidFilesError([FileProblem(file, None, "", "this file does not exist")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFilesError([FileProblem(file, None, "", f"cannot be read: {error}")]) from None


def parse_yaml(text: str, file: Path) -> tuple[Any, Mapping[FieldPath, int]]:
    """The plain data of a YAML file's text and the line of each of its fields."""
    try:
        loader = _TextualLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise InvalidFilesError([FileProblem(file, 1, "", "the file is empty")])
        lines: dict[FieldPath, int] = {}
        faults = list(_collect_lines(node, (), lines))
        if faults:
            raise InvalidFilesError(
                FileProblem(file, nearest_line(lines, path), field_text(path), message, remedy)
                for path, message, remedy in faults
            )
        return loader.construct_document(node), lines
    except yaml.YAMLError as error:
        raise InvalidFilesError([_syntax_problem(file, error)]) from None
    except RecursionError:
        message = "this is nested without end, or holds an alias of itself"
        raise InvalidFilesError([FileProblem(file, None, "", message)]) from None


def nearest_line(lines: Mapping[FieldPath, int], path: FieldPath) -> int | None:
    """The line of `path`, or of the longest beginning of it that has one."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def field_text(path: FieldPath) -> str:
    """A field path as people write it: endpoints.minilm.scaling.min_instances."""
    return ".".join(str(part) for part in path)


def holds(data: Any, part: str | int) -> bool:
    """Whether data has such a key, or so many items."""
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def value_at(data: Any, path: FieldPath) -> Any:
    """What stands at a place, or None."""
    for part in path:
        data = data[part] if holds(data, part) else None
    return data


# libyaml's, which reads ten times faster than Python's: an endpoint can have a thousand models.
class _TextualLoader(yaml.CSafeLoader):
    """Leaves dates as text: no field here is a date, and a surprise conversion helps nobody."""


_TextualLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "merge")
)
_KEY_TAGS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"})

_Fault = tuple[FieldPath, str, str]
"""Where, what is wrong, and the remedy."""


def _collect_lines(node: yaml.Node, path: FieldPath, lines: dict[FieldPath, int]) -> Iterator[_Fault]:
    """Fill `lines`, and give what YAML allows and no file here may hold."""
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            child = (*path, name)
            lines[child] = key.start_mark.line + 1
            if key.tag not in _KEY_TAGS:
                yield child, "a key must be text", "put it in quotes"
            elif name in seen:
                yield child, "this key stands twice", "keep one of the two"
            seen.add(name)
            yield from _collect_lines(value, child, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _collect_lines(item, (*path, index), lines)
    if node.tag not in _PLAIN_TAGS:
        yield path, f"YAML's tag {node.tag} means nothing here", "write the value without a tag"


def _syntax_problem(file: Path, error: yaml.YAMLError) -> FileProblem:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else None
    text = getattr(error, "problem", None) or str(error)
    remedy = None
    if "cannot start any token" in text:
        remedy = "indent with blanks, not with tabs; put a value that begins with @, ` or % in quotes"
    return FileProblem(file, line, "", f"this is not valid YAML: {text}", remedy)
