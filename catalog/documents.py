"""YAML files into typed records, with every fault named by file, line, field and remedy.

A file is read once: `yaml.compose` gives the line of each key, pydantic checks the values, and what
pydantic objects to is said again in the words of the file.
"""

from __future__ import annotations

import difflib
import json
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from catalog.errors import FileProblem, InvalidFilesError

FieldPath = tuple[str | int, ...]


class Record(BaseModel):
    """What comes from a file: unknown keys are errors, and nothing changes after it was read."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True)
class Document(Generic[RecordT]):
    """A record together with the file and the lines it came from."""

    record: RecordT
    file: Path
    lines: Mapping[FieldPath, int]

    def line_of(self, path: FieldPath) -> int | None:
        """The line of a field, or of the nearest thing around it that the file spells out."""
        return nearest_line(self.lines, path)

    def problem(self, path: FieldPath, message: str, *, remedy: str | None = None) -> FileProblem:
        """A fault at one field of this file."""
        return FileProblem(self.file, self.line_of(path), field_text(path), message, remedy)


def load_document(file: Path, record_type: type[RecordT]) -> Document[RecordT]:
    """Read and check one file; every fault in it is reported at once."""
    data, lines = read_yaml(file)
    try:
        record = TypeAdapter(record_type).validate_json(_to_json(data))
    except ValidationError as error:
        raise InvalidFilesError(
            problem
            for details in error.errors(include_url=False)
            for problem in _problems(file, lines, data, record_type, details)
        ) from None
    return Document(record, file, lines)


def read_yaml(file: Path) -> tuple[Any, Mapping[FieldPath, int]]:
    """The plain data of a YAML file and the line of each of its fields."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidFilesError([FileProblem(file, None, "", "this file does not exist")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFilesError([FileProblem(file, None, "", f"cannot be read: {error}")]) from None
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


def closest(word: str, known: typing.Iterable[str]) -> str | None:
    """The known word a misspelt one most likely meant."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


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


def _to_json(data: Any) -> bytes:
    # JSON mode makes strict validation accept what YAML can spell (lists for tuples, text for enums)
    # while numbers in place of text, and the reverse, stay errors.
    return json.dumps(data).encode()


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
    return FileProblem(file, line, "", f"this is not valid YAML: {text}")


def _problems(
    file: Path, lines: Mapping[FieldPath, int], data: Any, record_type: type[Record], details: ErrorDetails
) -> Iterator[FileProblem]:
    path = _path_in_file(details["loc"], data, missing=details["type"] == "missing")
    if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        # The field that says which of several records this is: without it nothing else in here is checked.
        tag = str(details.get("ctx", {}).get("discriminator")).strip("'")
        if details["type"] == "union_tag_not_found":
            yield from _unknown_keys(file, lines, details["input"], record_type, path)
        path = (*path, tag)
    message, remedy = _in_words(record_type, path, details)
    yield FileProblem(file, nearest_line(lines, path), field_text(path), message, remedy)


def _unknown_keys(
    file: Path, lines: Mapping[FieldPath, int], data: Any, record_type: type[Record], path: FieldPath
) -> Iterator[FileProblem]:
    known = sorted(known_keys(record_type, path))
    for key in data if isinstance(data, dict) else ():
        if key not in known:
            place = (*path, key)
            yield FileProblem(
                file, nearest_line(lines, place), field_text(place), "unknown key", _other_key(key, known)
            )


def _other_key(key: str, known: list[str]) -> str:
    suggestion = closest(key, known)
    return f"did you mean '{suggestion}'?" if suggestion else f"known keys here: {', '.join(known)}"


def _path_in_file(location: FieldPath, data: Any, *, missing: bool) -> FieldPath:
    """pydantic's location without the parts that name a union's branch rather than a place in the file."""
    path: list[str | int] = []
    for index, part in enumerate(location):
        last = index == len(location) - 1
        if _holds(data, part):
            data = data[part]
        elif not (last and missing):
            continue
        path.append(part)
    return tuple(path)


def _holds(data: Any, part: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def _in_words(record_type: type[Record], path: FieldPath, details: ErrorDetails) -> tuple[str, str | None]:
    """What is wrong and what to do, for one of pydantic's complaints."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return "unknown key", _other_key(str(path[-1]), sorted(known_keys(record_type, path[:-1])))
    if kind in ("missing", "union_tag_not_found"):
        return "this required key is missing", None
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        allowed = str(context.get("expected") or context.get("expected_tags"))
        allowed = " or ".join(allowed.rsplit(", ", 1)) if kind == "union_tag_invalid" else allowed
        received = context.get("tag", value)
        suggestion = closest(
            str(received), [word.strip(" '") for word in allowed.replace(" or ", ",").split(",")]
        )
        return (
            f"{received!r} is not one of {allowed}",
            f"did you mean '{suggestion}'?" if suggestion else None,
        )
    if kind == "string_type" and isinstance(value, int | float):
        return f"this must be text, not the number {value}", "put it in quotes"
    if kind == "value_error":
        text, _, remedy = str(context["error"]).partition("; ")
        return text, remedy or None
    return f"{details['msg']} (found {value!r})", None


def known_keys(record_type: Any, path: FieldPath) -> set[str]:
    """The keys that the type of the field at `path` allows."""
    if get_origin(record_type) is Annotated:
        return known_keys(get_args(record_type)[0], path)
    if isinstance(record_type, type) and issubclass(record_type, BaseModel):
        if not path:
            return set(record_type.model_fields)
        field = record_type.model_fields.get(str(path[0]))
        return known_keys(field.annotation, path[1:]) if field else set()
    origin, arguments = get_origin(record_type), get_args(record_type)
    if origin in (Union, types.UnionType):
        return set().union(*(known_keys(argument, path) for argument in arguments))
    if origin in (list, tuple, dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        inner = arguments[-1] if arguments[-1] is not Ellipsis else arguments[0]
        return known_keys(inner, path[1:]) if path else set()
    return set()
