"""`environments/<template>.template.yaml`: environments that come and go under names of their own.

A template is an environment's file with a head, `template:`, and `${name}` or a parameter of the head in its
values. An instance of it is a whole environment: it has its own stacks and buckets, and runs the artifacts
that another environment's lock names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tritonstack.base.documents import Document, Fault, FieldPath, Record, check_data, closest, refuse
from tritonstack.base.errors import FileProblem, InvalidFilesError, UsageError
from tritonstack.base.naming import Name
from tritonstack.base.yaml_reading import field_text, nearest_line, parse_yaml, read_text
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.spec.environments.expiry import EXPIRES, LEASE_TAGS, OWNER, PURPOSE, Lifetime, tag_text

Value = bool | int | float | str
"""What a parameter can be."""

HEAD = "template"
RESERVED = ("env", "name", OWNER, EXPIRES)
"""What the context of `cdk synth` says beside the parameters."""
_FOUND_BY = ("account", "region", "name_prefix", "bootstrap_qualifier")
"""What has to be known of an instance before anything of it can be looked up, or made."""
_PLACE = re.compile(r"\$\{([^}]*)\}")
_LONGEST_VALUE = 1000
_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,39}")


def _check_purpose(text: str) -> str:
    if not text.strip() or tag_text(text) != text:
        raise ValueError(
            f"{text!r} cannot be a tag; write up to 256 letters, digits, blanks and _ . : / = + - @"
        )
    return text


def _check_parameters(parameters: Mapping[str, Value]) -> Mapping[str, Value]:
    def faults() -> Iterator[Fault]:
        for name in parameters:
            if name in RESERVED:
                yield Fault((name,), "every instance has this without a parameter", "choose another name")
            elif not _PARAMETER.fullmatch(name):
                yield Fault(
                    (name,),
                    "this is not the name of a parameter",
                    "write up to 40 lower-case letters, digits and _, beginning with a letter",
                )
            elif isinstance(parameters[name], str) and len(str(parameters[name])) > _LONGEST_VALUE:
                yield Fault(
                    (name,),
                    f"the value has {len(str(parameters[name])):,} characters",
                    f"write at most {_LONGEST_VALUE}",
                )

    refuse(faults())
    return parameters


class TemplateHead(Record):
    """What a template says of its instances."""

    locks: Name
    """The environment whose lock they run, and whose bucket their artifacts come from."""
    purpose: Annotated[str, AfterValidator(_check_purpose)]
    """What they are for: a tag of everything in them."""
    longest: Lifetime = "24h"
    """How long one may live at most; also how long, where nobody says."""
    parameters: Annotated[Mapping[str, Value], AfterValidator(_check_parameters)] = Field(
        default_factory=dict
    )
    """What may be different from one instance to the next, with its default."""


class _Headed(Record):
    template: TemplateHead


@dataclass(frozen=True)
class Instance:
    """One instance of a template, as it was asked for."""

    template: str
    name: str
    owner: str
    expires: str
    """In UTC, such as 2026-11-22T08:30:00Z."""
    parameters: Mapping[str, Value]
    """Those that differ from the template's defaults."""

    @property
    def context(self) -> dict[str, str]:
        """What `cdk synth` has to be told to make its stacks."""
        own = {"env": self.template, "name": self.name, OWNER: self.owner, EXPIRES: self.expires}
        return own | {name: as_text(value) for name, value in self.parameters.items()}

    def to_json(self) -> str:
        """What its foundation keeps of it; the same instance gives the same text."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Template:
    """A template's file as far as it is the same for all of its instances."""

    name: str
    file: Path
    head: TemplateHead
    body: Mapping[str, Any]
    lines: Mapping[FieldPath, int]

    def problem(self, path: FieldPath, message: str, *, remedy: str) -> FileProblem:
        """A fault at one field of the file."""
        return FileProblem(self.file, nearest_line(self.lines, path), field_text(path), message, remedy)

    def parameters(self, given: Mapping[str, str]) -> dict[str, Value]:
        """What was given in words, each as the sort of value that its default is."""
        return {name: self._parameter(name, text) for name, text in sorted(given.items())}

    def _parameter(self, name: str, text: str) -> Value:
        known = self.head.parameters
        if name not in known:
            suggestion = closest(name, known)
            raise UsageError(
                f"template {self.name!r} has no parameter {name!r}",
                remedy=f"did you mean '{suggestion}'?"
                if suggestion
                else f"it has: {', '.join(known) or 'none'}",
            )
        sort = type(known[name])
        try:
            return _READERS[sort](text)
        except (ValueError, KeyError):
            raise UsageError(
                f"parameter {name!r} of template {self.name!r} is {_SORTS[sort]}, not {text!r}",
                remedy=f"its default is {as_text(known[name])}",
            ) from None


_READERS: Mapping[type, Callable[[str], Value]] = {
    bool: {"true": True, "false": False}.__getitem__,
    int: int,
    float: float,
    str: str,
}
_SORTS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def as_text(value: Value) -> str:
    """A parameter as a command line and YAML have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def load_template(file: Path, name: str) -> Template:
    """Read a template, whatever its instances will be."""
    data, lines = parse_yaml(read_text(file), file)
    head = data.get(HEAD) if isinstance(data, dict) else None
    if head is None:
        message = f"a template needs the key {HEAD!r}"
        remedy = "write `template: {locks: <environment>, purpose: <what its instances are for>}`"
        raise InvalidFilesError([FileProblem(file, 1, HEAD, message, remedy)])
    record = check_data(file, {HEAD: head}, lines, _Headed).record
    body = {key: value for key, value in data.items() if key != HEAD}
    template = Template(name, file, record.template, body, lines)
    if problems := list(_problems(template)):
        raise InvalidFilesError(problems)
    return template


def instance_document(template: Template, instance: Instance) -> Document[EnvironmentSpec]:
    """The environment that an instance is, with the lines of the template."""
    values = {**template.head.parameters, **instance.parameters, "name": instance.name}
    body = _filled(template.body, values)
    tags = body.get("tags", {})
    if isinstance(tags, dict):  # anything else is refused like the rest of the file
        lease = {OWNER: instance.owner, PURPOSE: template.head.purpose, EXPIRES: instance.expires}
        body["tags"] = tags | lease
    return check_data(template.file, body, template.lines, EnvironmentSpec)


def _problems(template: Template) -> Iterator[FileProblem]:
    known = {*template.head.parameters, "name"}
    for path, text in _texts(template.body, ()):
        for used in _PLACE.findall(text):
            if path[0] in _FOUND_BY:
                yield template.problem(
                    path,
                    "this is the same for all instances, so that one can be found by its name alone",
                    remedy="write what it is; another account or region takes another template",
                )
            elif used not in known:
                yield template.problem(
                    path,
                    f"there is no parameter {used!r}",
                    remedy=f"name it under template.parameters with its default; there are: "
                    f"{', '.join(sorted(known))}",
                )
    if template.body.get("name") != "${name}":
        yield template.problem(("name",), "instances have their own names", remedy="write `name: ${name}`")
    if template.body.get("removal") != "destroy" or template.body.get("protected"):
        yield template.problem(
            ("protected",) if template.body.get("protected") else ("removal",),
            "what expires is destroyed: it can neither be protected nor keep its data",
            remedy="write `removal: destroy`, and leave out `protected`",
        )
    tags = template.body.get("tags")
    for key in LEASE_TAGS:
        if isinstance(tags, dict) and key in tags:
            yield template.problem(("tags", key), "every instance has its own", remedy="remove it here")


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
    """The same data with values in place of names; what is a name alone keeps its value's sort."""
    if isinstance(data, dict):
        return {key: _filled(value, values) for key, value in data.items()}
    if isinstance(data, list):
        return [_filled(value, values) for value in data]
    if not isinstance(data, str):
        return data
    alone = _PLACE.fullmatch(data)
    return values[alone[1]] if alone else _PLACE.sub(lambda found: as_text(values[found[1]]), data)
