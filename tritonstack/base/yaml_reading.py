"""Reading a YAML file: its plain data, and the line of each field. Not all of YAML is let in."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tritonstack.base.errors import FileProblem, InvalidFilesError
from tritonstack.base.yaml_nodes import LimitError, TextualLoader, compose, scalar_fault

FieldPath = tuple[str | int, ...]


MAX_FAULTS = 100
"""How many faults of one file are listed. A file with more is not repaired one by one."""
MAX_FILE_BYTES = 10_000_000
"""The size of the largest file that is read. The lock of a thousand models has about two million bytes."""


def read_text(file: Path) -> str:
    """Return the text of a file; refuse one that is too large, or that is no regular file."""
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            message = "this is not a regular file"
            raise _unreadable(file, message, "replace it with a file of YAML text")
        if found.st_size > MAX_FILE_BYTES:
            message = f"the file has {found.st_size:,} bytes; at most {MAX_FILE_BYTES:,} are read"
            raise _unreadable(file, message, "remove what does not belong into it")
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidFilesError([FileProblem(file, None, "", "this file does not exist")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"the byte 0x{error.object[error.start]:02x} is not valid UTF-8"
        raise _unreadable(file, message, "save the file as UTF-8 text", line) from None
    except OSError as error:
        message = f"the file cannot be read: {error.strerror or error}"
        raise _unreadable(file, message, "check its permissions and its path") from None


def _unreadable(file: Path, message: str, remedy: str, line: int | None = None) -> InvalidFilesError:
    return InvalidFilesError([FileProblem(file, line, "", message, remedy)])


def parse_yaml(text: str, file: Path) -> tuple[Any, Mapping[FieldPath, int]]:
    """The plain data of a YAML file's text and the line of each of its fields."""
    try:
        loader = TextualLoader(text)
        node = compose(loader)
        if node is None:
            raise _unreadable(file, "the file is empty", "write the required keys", 1)
        lines: dict[FieldPath, int] = {}
        faults = list(_collect_lines(loader, node, (), lines))
        if faults:
            raise InvalidFilesError(
                FileProblem(file, nearest_line(lines, path), field_text(path), message, remedy)
                for path, message, remedy in faults[:MAX_FAULTS]
            )
        return loader.construct_document(node), lines
    except yaml.YAMLError as error:
        raise InvalidFilesError([_syntax_problem(file, text, error)]) from None


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


_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "merge")
)
_KEY_TAGS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"})

_Fault = tuple[FieldPath, str, str]
"""Where, what is wrong, and the remedy."""


def _collect_lines(
    loader: TextualLoader, node: yaml.Node, path: FieldPath, lines: dict[FieldPath, int]
) -> Iterator[_Fault]:
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
            yield from _collect_lines(loader, value, child, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _collect_lines(loader, item, (*path, index), lines)
    if node.tag in _PLAIN_TAGS:
        if isinstance(node, yaml.ScalarNode) and (message := scalar_fault(loader, node)):
            yield path, message, "write another value, or put it in quotes if it is text"
    else:
        yield path, f"YAML's tag {node.tag} means nothing here", "write the value without a tag"


def _syntax_problem(file: Path, text: str, error: yaml.YAMLError) -> FileProblem:
    if isinstance(error, yaml.reader.ReaderError):
        place = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        message = f"this is not valid YAML: the character U+{code:04X} is not allowed"
        return FileProblem(file, place, "", message, "remove the character")
    mark: Any = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else None
    if isinstance(error, LimitError):
        return FileProblem(file, line, "", str(error.problem), error.remedy)
    said = getattr(error, "problem", None) or str(error)
    return FileProblem(file, line, "", f"this is not valid YAML: {said}", _syntax_remedy(said))


def _syntax_remedy(said: str) -> str:
    return next((remedy for words, remedy in _SYNTAX_REMEDIES.items() if words in said), _CHECK_SYNTAX)


_CHECK_SYNTAX = "check this line and the ones before it: indentation, quotes, brackets, `key: value`"
_SYNTAX_REMEDIES = {
    "cannot start any token": (
        "indent with blanks, not with tabs; put a value that begins with @, ` or % in quotes"
    ),
}
