"""Parse a YAML file into plain data and the line of each field. Supports a subset of YAML."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.yaml_nodes import BINARY_TAG, LimitError, TextualLoader, compose, scalar_violation

FieldPath = tuple[str | int, ...]


MAX_VIOLATIONS = 100
"""Maximum number of errors listed per file."""
MAX_FILE_BYTES = 10_000_000
"""Maximum file size. The lock of a thousand models has about 2 MB."""


def read_text(file: Path) -> str:
    """Return the text of a file with its line endings; reject files that are too large or not regular."""
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            message = "not a regular file"
            raise _unreadable(file, message, "replace it with a YAML file")
        if found.st_size > MAX_FILE_BYTES:
            message = f"expected at most {MAX_FILE_BYTES:,} bytes, got {found.st_size:,}"
            raise _unreadable(file, message, "remove unneeded content")
        return file.read_bytes().decode()
    except FileNotFoundError:
        raise _unreadable(file, "file not found", "create the file, or correct its name") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"the byte 0x{error.object[error.start]:02x} is not valid UTF-8"
        raise _unreadable(file, message, "save the file as UTF-8 text", line) from None
    except OSError as error:
        message = f"cannot read the file: {error.strerror or error}"
        raise _unreadable(file, message, "check its permissions and its path") from None


def _unreadable(file: Path, message: str, remedy: str, line: int | None = None) -> InvalidFilesError:
    return InvalidFilesError([FileViolation(file, line, "", message, remedy, code="TS101")])


def parse_yaml(text: str, file: Path) -> tuple[Any, Mapping[FieldPath, int]]:
    """Return the plain data of a YAML text and the line of each of its fields."""
    try:
        loader = TextualLoader(text)
        node = compose(loader)
        if node is None:
            raise _unreadable(file, "the file is empty", "write the required keys", 1)
        lines: dict[FieldPath, int] = {}
        violations = list(_collect_lines(loader, node, (), lines))
        if violations:
            raise InvalidFilesError(
                FileViolation(file, nearest_line(lines, path), field_text(path), message, remedy, code=code)
                for path, message, remedy, code in violations[:MAX_VIOLATIONS]
            )
        return loader.construct_document(node), lines
    except yaml.YAMLError as error:
        raise InvalidFilesError([_syntax_violation(file, text, error)]) from None


def nearest_line(lines: Mapping[FieldPath, int], path: FieldPath) -> int | None:
    """Return the line of `path`, or of its longest prefix that has one."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def field_text(path: FieldPath) -> str:
    """Return a field path in dotted form: endpoints.minilm.scaling.min_instances."""
    return ".".join(str(part) for part in path)


def holds(data: Any, part: str | int) -> bool:
    """Check whether data has a key or an index."""
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def value_at(data: Any, path: FieldPath) -> Any:
    """Return the value at a path, or None."""
    for part in path:
        data = data[part] if holds(data, part) else None
    return data


_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "merge")
)
_WITH_BYTES = "test_inputs"
"""The only key whose values may be `!!binary`."""
_KEY_TAGS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"})

_Violation = tuple[FieldPath, str, str, str]
"""Path, message, remedy, and code."""


def _collect_lines(
    loader: TextualLoader, node: yaml.Node, path: FieldPath, lines: dict[FieldPath, int]
) -> Iterator[_Violation]:
    """Fill `lines`, and yield errors for unsupported YAML."""
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            child = (*path, name)
            lines[child] = key.start_mark.line + 1
            if key.tag not in _KEY_TAGS:
                yield child, "expected a text key", "put it in quotes", "TS103"
            elif name in seen:
                yield child, "duplicate key", "keep one of the two", "TS105"
            seen.add(name)
            yield from _collect_lines(loader, value, child, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _collect_lines(loader, item, (*path, index), lines)
    if node.tag in _PLAIN_TAGS:
        if isinstance(node, yaml.ScalarNode) and (message := scalar_violation(loader, node)):
            yield path, message, "write another value, or put it in quotes if it is text", "TS103"
    elif node.tag != BINARY_TAG or path[:1] != (_WITH_BYTES,):
        yield path, f"unsupported YAML tag {node.tag}", "write the value without a tag", "TS103"


def _syntax_violation(file: Path, text: str, error: yaml.YAMLError) -> FileViolation:
    if isinstance(error, yaml.reader.ReaderError):
        place = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        message = f"invalid YAML: the character U+{code:04X} is not allowed"
        return FileViolation(file, place, "", message, "remove the character", code="TS102")
    mark: Any = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else None
    if isinstance(error, LimitError):
        return FileViolation(file, line, "", str(error.problem), error.remedy, code="TS103")
    message_text = getattr(error, "problem", None) or str(error)
    return FileViolation(
        file, line, "", f"invalid YAML: {message_text}", _syntax_remedy(message_text), code="TS102"
    )


def _syntax_remedy(violation: str) -> str:
    return next(
        (remedy for pattern, remedy in _SYNTAX_REMEDIES.items() if pattern in violation), _CHECK_SYNTAX
    )


_CHECK_SYNTAX = "check this line and the ones before it: indentation, quotes, brackets, `key: value`"
_SYNTAX_REMEDIES = {
    "cannot start any token": (
        "indent with spaces, not tabs; put a value that starts with @, ` or % in quotes"
    ),
}
