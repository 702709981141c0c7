"""`environments/<template>.template.yaml`: templates of expiring environments.

A template is an environment file with a `template:` key, and with `${name}` or template parameters in its
values. Each instance is a complete environment with its own stacks and buckets. It runs the artifacts of
another environment's lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tritonstack.base.error_kinds import (
    CommandLineError,
    InvalidValueError,
    MissingKeyError,
    UnknownNameError,
)
from tritonstack.base.errors import ErrorKind, FileViolation, InvalidFilesError, UsageError
from tritonstack.base.naming import Name
from tritonstack.base.yaml import (
    Document,
    FieldPath,
    Record,
    Violation,
    check_data,
    in_file,
    parse_yaml,
    raise_violations,
    read_text,
    suggest,
)
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.tags import EXPIRES, LEASE_TAGS, OWNER, PURPOSE, Lifetime, tag_text

Value = bool | int | float | str
"""Allowed parameter types."""

HEAD = "template"
RESERVED = ("env", "name", OWNER, EXPIRES)
"""Context keys of `cdk synth` beside the parameters."""
_FOUND_BY = ("account", "region", "name_prefix", "bootstrap_qualifier")
"""Fields needed to find or create an instance."""
_PLACE = re.compile(r"\$\{([^}]*)\}")
_LONGEST_VALUE = 1000
_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,39}")


class InvalidTemplateError(UsageError):
    """A template has an invalid or unknown parameter, a parameter in a field that must be fixed, or a field
    that each instance sets.
    """

    code = "TS124"
    title = "Invalid environment template"


def _check_purpose(text: str) -> str:
    if not text.strip() or tag_text(text) != text:
        raise ValueError(
            f"invalid tag value {text!r}; write up to 256 letters, digits, spaces, and _ . : / = + - @"
        )
    return text


def _check_parameters(parameters: Mapping[str, Value]) -> Mapping[str, Value]:
    def violations() -> Iterator[Violation]:
        for name in parameters:
            if name in RESERVED:
                yield InvalidTemplateError.at((name,), "this parameter is built in", "choose another name")
            elif not _PARAMETER.fullmatch(name):
                yield InvalidTemplateError.at(
                    (name,),
                    "invalid parameter name",
                    "write up to 40 lowercase letters, digits, and _, starting with a letter",
                )
            elif isinstance(parameters[name], str) and len(str(parameters[name])) > _LONGEST_VALUE:
                yield InvalidValueError.at(
                    (name,),
                    f"expected at most {_LONGEST_VALUE} characters, got {len(str(parameters[name])):,}",
                    "shorten it",
                )

    raise_violations(violations())
    return parameters


class TemplateHead(Record):
    """The `template:` block."""

    locks: Name
    """The environment whose lock and artifact bucket the instances use."""
    purpose: Annotated[str, AfterValidator(_check_purpose)]
    """Purpose of the instances; a tag of all their resources."""
    longest: Lifetime = "24h"
    """Maximum lifetime of an instance, and the default."""
    parameters: Annotated[Mapping[str, Value], AfterValidator(_check_parameters)] = Field(
        default_factory=dict
    )
    """Values that can differ between instances, with their defaults."""


class _Headed(Record):
    template: TemplateHead


@dataclass(frozen=True)
class Instance:
    """One instance of a template, as requested."""

    template: str
    name: str
    owner: str
    expires: str
    """In UTC, such as 2026-11-22T08:30:00Z."""
    parameters: Mapping[str, Value]
    """Parameters that differ from the template's defaults."""

    @property
    def context(self) -> dict[str, str]:
        """Return the context for `cdk synth`."""
        values = {"env": self.template, "name": self.name, OWNER: self.owner, EXPIRES: self.expires}
        return values | {name: as_text(value) for name, value in self.parameters.items()}

    def to_json(self) -> str:
        """Serialize the request, stored by its foundation; equal instances give equal text."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Template:
    """A template file, before any instance is filled in."""

    name: str
    file: Path
    head: TemplateHead
    body: Mapping[str, Any]
    lines: Mapping[FieldPath, int]

    def violation(self, kind: ErrorKind, path: FieldPath, message: str, remedy: str) -> FileViolation:
        """Describe an error of some kind at one field of the file."""
        return in_file(Violation(path, message, remedy, code=kind.code), self.file, self.lines)

    def parameters(self, arguments: Mapping[str, str]) -> dict[str, Value]:
        """Convert parameters from text to the types of their defaults."""
        return {name: self._parameter(name, text) for name, text in sorted(arguments.items())}

    def _parameter(self, name: str, text: str) -> Value:
        parameters = self.head.parameters
        if name not in parameters:
            raise UnknownNameError(
                f"template {self.name!r} has no parameter {name!r}",
                remedy=suggest(name, parameters, f"known parameters: {', '.join(parameters) or 'none'}"),
            )
        sort = type(parameters[name])
        try:
            return _READERS[sort](text)
        except (ValueError, KeyError):
            raise CommandLineError(
                f"parameter {name!r} of template {self.name!r}: expected {_SORTS[sort]}, got {text!r}",
                remedy=f"for example the default, {as_text(parameters[name])}",
            ) from None


_READERS: Mapping[type, Callable[[str], Value]] = {
    bool: {"true": True, "false": False}.__getitem__,
    int: int,
    float: float,
    str: str,
}
_SORTS = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


def as_text(value: Value) -> str:
    """Format a parameter for a command line and for YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def load_template(file: Path, name: str) -> Template:
    """Read a template."""
    data, lines = parse_yaml(read_text(file), file)
    head = data.get(HEAD) if isinstance(data, dict) else None
    if head is None:
        message = f"required key {HEAD!r} is missing"
        remedy = "write `template: {locks: <environment>, purpose: <what its instances are for>}`"
        raise InvalidFilesError([FileViolation(file, 1, HEAD, message, remedy, code=MissingKeyError.code)])
    record = check_data(file, {HEAD: head}, lines, _Headed).record
    body = {key: value for key, value in data.items() if key != HEAD}
    template = Template(name, file, record.template, body, lines)
    if violations := list(_violations(template)):
        raise InvalidFilesError(violations)
    return template


def instance_document(template: Template, instance: Instance) -> Document[EnvironmentSpec]:
    """Return the environment of an instance, with the line numbers of the template."""
    values = {**template.head.parameters, **instance.parameters, "name": instance.name}
    body = _filled(template.body, values)
    tags = body.get("tags", {})
    if isinstance(tags, dict):  # validation rejects anything else
        expiry_tags = {OWNER: instance.owner, PURPOSE: template.head.purpose, EXPIRES: instance.expires}
        body["tags"] = tags | expiry_tags
    return check_data(template.file, body, template.lines, EnvironmentSpec)


def _violations(template: Template) -> Iterator[FileViolation]:
    names = {*template.head.parameters, "name"}
    for path, text in _texts(template.body, ()):
        for used in _PLACE.findall(text):
            if path[0] in _FOUND_BY:
                yield template.violation(
                    InvalidTemplateError,
                    path,
                    "this field cannot use parameters, so that instances can be found by name",
                    "write a fixed value; use another template for another account or region",
                )
            elif used not in names:
                yield template.violation(
                    InvalidTemplateError,
                    path,
                    f"unknown parameter {used!r}",
                    f"declare it under template.parameters with a default; known parameters: "
                    f"{', '.join(sorted(names))}",
                )
    if template.body.get("name") != "${name}":
        yield template.violation(
            InvalidTemplateError, ("name",), "each instance needs its own name", "write `name: ${name}`"
        )
    if template.body.get("removal") != "destroy" or template.body.get("protected"):
        yield template.violation(
            InvalidTemplateError,
            ("protected",) if template.body.get("protected") else ("removal",),
            "expiring environments can be neither protected nor retain data",
            "write `removal: destroy`, and omit `protected`",
        )
    tags = template.body.get("tags")
    for key in LEASE_TAGS:
        if isinstance(tags, dict) and key in tags:
            yield template.violation(
                InvalidTemplateError, ("tags", key), "each instance sets this tag", "remove it here"
            )


def _texts(data: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(data, str):
        yield path, data
    for key, value in _members(data):
        yield from _texts(value, (*path, key))


def _members(data: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(data, dict):
        yield from data.items()
    elif isinstance(data, list):
        yield from enumerate(data)


def _filled(data: Any, values: Mapping[str, Value]) -> Any:
    """Substitute parameters in data; a value that is only a parameter keeps the parameter's type."""
    if isinstance(data, dict):
        return {key: _filled(value, values) for key, value in data.items()}
    if isinstance(data, list):
        return [_filled(value, values) for value in data]
    if not isinstance(data, str):
        return data
    alone = _PLACE.fullmatch(data)
    return values[alone[1]] if alone else _PLACE.sub(lambda match: as_text(values[match[1]]), data)
