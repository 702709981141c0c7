"""Read a template from JSON, or from YAML without short-form tags, and the values of its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_pascal

from tritonstack.base.files import parse_json
from tritonstack_local.cloudformation.errors import TemplateError

MOST_RESOURCES = 500
Section = Annotated[dict[str, Any], BeforeValidator(lambda value: value or {})]
_Objects = Annotated[dict[str, dict[str, Any]], BeforeValidator(lambda value: value or {})]
_Value = Annotated[
    str, BeforeValidator(lambda value: str(value).lower() if isinstance(value, bool) else value)
]


class _Part(BaseModel):
    """A part of a template, nothing resolved. What is not here is not implemented, and rejected."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_pascal,
        defer_build=True,  # until the first template, to keep the cloud's start fast
        coerce_numbers_to_str=True,
    )


class Resource(_Part):
    """One entry under Resources."""

    logical_id: str
    type: str
    properties: Section = {}
    depends_on: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
    ] = ()
    condition: str | None = None
    metadata: Section = {}
    deletion_policy: Literal["Delete", "Retain", "RetainExceptOnCreate"] = "Delete"
    update_replace_policy: Literal["Delete", "Retain"] = "Delete"


class ParameterDeclaration(_Part):
    """One entry under Parameters."""

    type: str
    default: _Value | None = None
    allowed_values: tuple[_Value, ...] | None = None
    allowed_pattern: str = ".*"
    constraint_description: str = ""
    description: str = ""
    no_echo: bool = False

    def violation(self, value: str, *, number: bool) -> str | None:
        """Return the constraint that a value violates, if any."""
        if self.allowed_values is not None and value not in self.allowed_values:
            broken = f"Parameter must be one of {', '.join(self.allowed_values)}"
        elif not re.fullmatch(self.allowed_pattern, value, re.DOTALL):
            broken = f"Parameter must match pattern {self.allowed_pattern}"
        elif number and not re.fullmatch(r"[+-]?\d+(\.\d*)?", value):
            broken = f"Parameter must be a number, not {value!r}"
        else:
            return None
        return self.constraint_description or f"failed to satisfy constraint: {broken}"


def _named(resources: object) -> object:
    """Add the logical id to each resource."""
    if not isinstance(resources, Mapping):
        return resources
    for name, body in resources.items():
        if isinstance(body, Mapping) and "LogicalId" in body:
            raise ValueError(f"{name} has the unknown attribute LogicalId")
    return {
        name: {**body, "LogicalId": name} if isinstance(body, Mapping) else body
        for name, body in resources.items()
    }


class StackTemplate(_Part):
    """A parsed template."""

    body: str = Field(exclude=True)
    template_format_version: str | None = Field(None, alias="AWSTemplateFormatVersion")
    description: str = ""
    metadata: Section = {}
    parameters: Annotated[dict[str, ParameterDeclaration], BeforeValidator(lambda value: value or {})] = {}
    conditions: Section = {}
    rules: _Objects = {}
    resources: Annotated[dict[str, Resource], BeforeValidator(_named)] = Field(
        min_length=1, max_length=MOST_RESOURCES
    )
    outputs: _Objects = {}


def parse_template(body: str) -> StackTemplate:
    """Parse a template body, or raise TemplateError with all errors in its structure."""
    try:
        document = parse_json(body) if body.lstrip().startswith("{") else yaml.load(body, _TemplateLoader)  # noqa: S506
    except (ValueError, yaml.YAMLError) as error:
        raise TemplateError(f"Template format error: {error}") from error
    except RecursionError:
        raise TemplateError("Template format error: the template is nested too deeply.") from None
    if not isinstance(document, dict):
        raise TemplateError("Template format error: unsupported structure.")
    if "Body" in document:
        raise TemplateError("Template format error: unknown attribute Body.")
    try:
        return StackTemplate.model_validate({**document, "Body": body})
    except ValidationError as error:
        raise TemplateError.listing(_violations(error)) from error


def _violations(error: ValidationError) -> Iterator[str]:
    for item in error.errors():
        where = ".".join(map(str, item["loc"]))
        extra = item["type"] == "extra_forbidden"
        yield f"{where} is not implemented in the local cloud" if extra else f"{where}: {item['msg']}"


class _TemplateLoader(yaml.SafeLoader):
    """YAML whose dates are strings; the CDK writes no short forms, such as `!Sub`."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; reject aliases with CloudFormation's message."""
        if self.check_event(yaml.AliasEvent):
            raise TemplateError("Template error: YAML aliases are not allowed in CloudFormation templates")
        return super().compose_node(parent, index)


_TemplateLoader.add_constructor("tag:yaml.org,2002:timestamp", lambda _loader, node: node.value)

_SSM_VALUE = re.compile(r"AWS::SSM::Parameter::Value<(?P<type>.+)>")
_LISTS = {"CommaDelimitedList", "List<Number>", "List<String>"}
_TYPES = _LISTS | {"String", "Number", "AWS::SSM::Parameter::Name"}


@dataclass(frozen=True)
class StackParameter:
    """One parameter of a stack. `value` is the given value, `resolved` the value of `Ref`."""

    key: str
    value: str
    resolved: str | list[str]
    no_echo: bool
    from_ssm: bool

    def described(self) -> dict[str, str]:
        """Return the parameter as DescribeStacks shows it."""
        shown = {"ParameterKey": self.key, "ParameterValue": "****" if self.no_echo else self.value}
        if self.from_ssm:
            shown["ResolvedValue"] = (
                self.resolved if isinstance(self.resolved, str) else ",".join(self.resolved)
            )
        return shown


def resolve_parameters(
    *,
    declared: Mapping[str, ParameterDeclaration],
    given: Mapping[str, Mapping[str, Any]],
    previous: Mapping[str, StackParameter],
    read_ssm: Callable[[str], str],
) -> dict[str, StackParameter]:
    """Return the values of all declared parameters, or raise TemplateError with all errors.

    `given` holds a call's parameters by key: each with its ParameterValue, or with UsePreviousValue.
    """
    unknown = sorted(given.keys() - declared.keys())
    if unknown:
        raise TemplateError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values: dict[str, str] = {}
    for key, declaration in declared.items():
        call = given.get(key)
        if call is not None and not call.get("UsePreviousValue"):
            values[key] = str(call.get("ParameterValue", ""))
        elif call is not None and key in previous:
            values[key] = previous[key].value
        elif declaration.default is not None:
            values[key] = declaration.default
    if missing := sorted(declared.keys() - values.keys()):
        raise TemplateError(f"Parameters: [{', '.join(missing)}] must have values")
    return {key: _parameter(key, declared[key], value, read_ssm) for key, value in values.items()}


def _parameter(
    key: str, declaration: ParameterDeclaration, value: str, read_ssm: Callable[[str], str]
) -> StackParameter:
    from_ssm = _SSM_VALUE.fullmatch(declaration.type)
    kind = from_ssm["type"] if from_ssm else declaration.type
    if kind not in _TYPES:
        raise TemplateError(f"Parameter {key}: type {kind!r} is not implemented in the local cloud")
    text = read_ssm(value) if from_ssm else value
    items = [item.strip() for item in text.split(",")] if kind in _LISTS else None
    for item in [text] if items is None else items:
        if (violation := declaration.violation(item, number="Number" in kind)) is not None:
            raise TemplateError(f"Parameter {key} {violation}")
    return StackParameter(
        key=key,
        value=value,
        resolved=text if items is None else items,
        no_echo=declaration.no_echo,
        from_ssm=from_ssm is not None,
    )
