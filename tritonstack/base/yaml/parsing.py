"""Parse a YAML text into plain data and the line of each field. Supports a subset of YAML.

The size of the data is bounded, however few bytes the text has: a few lines of aliases can stand for billions
of values ("billion laughs"), and a few kilobytes of brackets for nesting that no recursive reader survives.
Both are rejected while the text is parsed, before any value is made.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tritonstack.base.error_kinds import InvalidYamlError, UnreadableFileError
from tritonstack.base.errors import FieldPath, FileViolation, InvalidFilesError, Violation

MAX_DEPTH = 64
"""How deep lists and mappings may be nested. The deepest field of any file here is at 12."""
MAX_REPEATED = 10_000
"""How many values the aliases of one document may repeat, all of them together."""
_MAX_DIGITS = 40
_MAX_NUMBER = 2**63

_CHECKED = {
    "tag:yaml.org,2002:int": "whole number",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "boolean",
}


# libyaml's, which reads ten times faster than Python's: an endpoint can have a thousand models.
class TextualLoader(yaml.CSafeLoader):
    """Keeps dates as text: no field is a date, and a conversion would be a surprise.

    Reads numbers such as 1e-3 as YAML 1.2 does; YAML 1.1 reads them as text.
    """


TextualLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_EXPONENT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+\Z")


class TextualDumper(yaml.SafeDumper):
    """Quotes texts that TextualLoader would read as numbers, such as the digest 12e4."""


for _class in (TextualLoader, TextualDumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))


BINARY_TAG = "tag:yaml.org,2002:binary"


def _binary(_: TextualLoader, node: yaml.ScalarNode) -> dict[str, str]:
    """Keep `!!binary` as base64, so that a document is plain JSON."""
    return {"base64": "".join(str(node.value).split())}


TextualLoader.add_constructor(BINARY_TAG, _binary)


class LimitError(yaml.MarkedYAMLError):
    """The document is valid YAML, but larger than any file here has to be."""

    def __init__(self, message: str, remedy: str, mark: Any) -> None:
        super().__init__(problem=message, problem_mark=mark)
        self.remedy = remedy


def load_yaml(text: str) -> Any:
    """Return the plain data of a YAML text; raise yaml.YAMLError if it is invalid or exceeds a limit."""
    loader = TextualLoader(text)
    node = compose(loader)
    if node is None:
        return None
    check_scalars(loader, node)
    return loader.construct_document(node)


def compose(loader: TextualLoader) -> yaml.Node | None:
    """Return the root node of the loader's one document, None if there is no document."""
    loader.get_event()  # the start of the stream
    if loader.check_event(yaml.StreamEndEvent):
        return None
    loader.get_event()  # the start of the document
    node = _Composer(loader).node(1)[0]
    loader.get_event()  # the end of the document
    if not loader.check_event(yaml.StreamEndEvent):
        event: Any = loader.peek_event()
        raise LimitError(
            "the file holds more than one YAML document",
            "remove the line '---' and what follows it",
            event.start_mark,
        )
    return node


def scalar_violation(loader: TextualLoader, node: yaml.ScalarNode) -> str | None:
    """Return what is wrong with a number or a boolean, None if it can be constructed."""
    kind = _CHECKED.get(node.tag)
    if kind is None:
        return None
    if len(node.value) > _MAX_DIGITS:
        return f"the {kind} has {len(node.value)} characters, and at most {_MAX_DIGITS} are allowed"
    try:
        value = loader.construct_object(node)
    except (ValueError, KeyError, OverflowError):
        return f"{node.value!r} is not a valid {kind}"
    if isinstance(value, int) and not -_MAX_NUMBER <= value < _MAX_NUMBER:
        return f"{node.value} does not fit into 64 bits"
    return None


def check_scalars(loader: TextualLoader, root: yaml.Node) -> None:
    """Raise LimitError if a number or a boolean cannot be constructed."""
    waiting, visited = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            if message := scalar_violation(loader, node):
                raise LimitError(message, "write another value", node.start_mark)
        elif isinstance(node, yaml.MappingNode):
            waiting += (part for pair in node.value for part in pair)
        else:
            waiting += node.value


class _Composer:
    """Builds nodes from the parser's events, as yaml.compose does, within the limits."""

    def __init__(self, loader: TextualLoader) -> None:
        self._loader = loader
        self._anchors: dict[str, tuple[yaml.Node, int] | None] = {}
        self._repeated = 0

    def node(self, depth: int) -> tuple[yaml.Node, int]:
        """Return the next node, and how many nodes it stands for once its aliases are expanded."""
        event: Any = self._loader.get_event()
        if isinstance(event, yaml.AliasEvent):
            return self._repeat(event)
        if depth > MAX_DEPTH:
            raise LimitError(
                f"lists and mappings are nested more than {MAX_DEPTH} levels deep",
                "write a flatter structure",
                event.start_mark,
            )
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        sized_node = self._made(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = sized_node
        return sized_node

    def _made(self, event: Any, depth: int) -> tuple[yaml.Node, int]:
        kind: type[yaml.Node]
        value: Any
        if isinstance(event, yaml.SequenceStartEvent):
            kind, (value, size) = yaml.SequenceNode, self._parts(yaml.SequenceEndEvent, depth)
        elif isinstance(event, yaml.MappingStartEvent):
            kind, (value, size) = yaml.MappingNode, self._parts(yaml.MappingEndEvent, depth)
            value = list(zip(value[::2], value[1::2], strict=True))
        else:
            kind, value, size = yaml.ScalarNode, event.value, 0
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(kind, value, event.implicit)  # type: ignore[no-untyped-call]
        return kind(tag, value, event.start_mark, event.end_mark), size + 1

    def _parts(self, end: type[yaml.Event], depth: int) -> tuple[list[yaml.Node], int]:
        """Return the nodes up to an event, keys and values in turn, and how many they stand for."""
        parts, size = list[yaml.Node](), 0
        while not self._loader.check_event(end):
            part, part_size = self.node(depth + 1)
            parts.append(part)
            size += part_size
        self._loader.get_event()
        return parts, size

    def _repeat(self, event: yaml.AliasEvent) -> tuple[yaml.Node, int]:
        if event.anchor not in self._anchors:
            raise LimitError(
                f"the alias *{event.anchor} has no anchor before it",
                f"write &{event.anchor} before the value that it repeats",
                event.start_mark,
            )
        sized_node = self._anchors[event.anchor]
        if sized_node is None:
            raise LimitError(
                f"the alias *{event.anchor} is inside the value that it repeats",
                "write out the value",
                event.start_mark,
            )
        self._repeated += sized_node[1]
        if self._repeated > MAX_REPEATED:
            raise LimitError(
                f"the aliases of this file repeat more than {MAX_REPEATED:,} values",
                "use fewer aliases, or write out the values",
                event.start_mark,
            )
        return sized_node


MAX_VIOLATIONS = 100
"""Maximum number of errors listed per file."""
MAX_FILE_BYTES = 10_000_000
"""Maximum file size. The lock of a thousand models has about 2 MB."""


def read_text(file: Path) -> str:
    """Return the text of a file with its line endings; reject files that are too large or not regular."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            message = "not a regular file"
            raise _unreadable(file, message, "replace it with a YAML file")
        if status.st_size > MAX_FILE_BYTES:
            message = f"expected at most {MAX_FILE_BYTES:,} bytes, got {status.st_size:,}"
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
    return InvalidFilesError([FileViolation(file, line, "", message, remedy, code=UnreadableFileError.code)])


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
                in_file(violation, file, lines) for violation in violations[:MAX_VIOLATIONS]
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


def in_file(violation: Violation, file: Path, lines: Mapping[FieldPath, int]) -> FileViolation:
    """Return where in a file a violation of its record is."""
    line, field = nearest_line(lines, violation.path), field_text(violation.path)
    return FileViolation(file, line, field, violation.message, violation.remedy, code=violation.code)


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


def _collect_lines(
    loader: TextualLoader, node: yaml.Node, path: FieldPath, lines: dict[FieldPath, int]
) -> Iterator[Violation]:
    """Fill `lines`, and yield errors for unsupported YAML."""
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            child = (*path, name)
            lines[child] = key.start_mark.line + 1
            if key.tag not in _KEY_TAGS:
                yield InvalidYamlError.at(child, "expected a text key", "put it in quotes")
            elif name in keys:
                yield InvalidYamlError.at(child, "duplicate key", "keep one of the two")
            keys.add(name)
            yield from _collect_lines(loader, value, child, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _collect_lines(loader, item, (*path, index), lines)
    if node.tag in _PLAIN_TAGS:
        if isinstance(node, yaml.ScalarNode) and (message := scalar_violation(loader, node)):
            remedy = "write another value, or put it in quotes if it is text"
            yield InvalidYamlError.at(path, message, remedy)
    elif node.tag != BINARY_TAG or path[:1] != (_WITH_BYTES,):
        yield InvalidYamlError.at(path, f"unsupported YAML tag {node.tag}", "write the value without a tag")


def _syntax_violation(file: Path, text: str, error: yaml.YAMLError) -> FileViolation:
    if isinstance(error, yaml.reader.ReaderError):
        place = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        message = f"invalid YAML: the character U+{code:04X} is not allowed"
        return FileViolation(file, place, "", message, "remove the character", code=InvalidYamlError.code)
    mark: Any = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else None
    if isinstance(error, LimitError):
        return FileViolation(file, line, "", str(error.problem), error.remedy, code=InvalidYamlError.code)
    message_text = getattr(error, "problem", None) or str(error)
    return FileViolation(
        file,
        line,
        "",
        f"invalid YAML: {message_text}",
        _syntax_remedy(message_text),
        code=InvalidYamlError.code,
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
