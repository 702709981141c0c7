"""List what the local cloud implements, emulates, and rejects, and write COVERAGE.md.

`python -m tritonstack_local.coverage [FILE]` prints the page, or writes it to FILE. Everything accepted
without its effect on AWS is listed with the reason. Providers declare it for properties, each service for its
request fields, and coverage.yaml for whole services.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tritonstack.base.yaml import load_yaml
from tritonstack_local.autoscaling.app import OFFERED as OFFERED_IN_AUTO_SCALING
from tritonstack_local.autoscaling.requests import REJECTED as UNSUPPORTED_IN_AUTO_SCALING
from tritonstack_local.cloudformation.api import ACTIONS
from tritonstack_local.cloudformation.providers import PROVIDERS, UNSUPPORTED_TYPES
from tritonstack_local.cloudformation.providers.base import Provider
from tritonstack_local.cloudwatch.alarm_rules import NOT_SUPPORTED
from tritonstack_local.codebuild.actions import ACTIONS as OFFERED_IN_CODEBUILD
from tritonstack_local.codebuild.unsupported import ACCEPTED_WITHOUT_EFFECT as ACCEPTED_IN_CODEBUILD
from tritonstack_local.codebuild.unsupported import ONLY as UNSUPPORTED_IN_CODEBUILD
from tritonstack_local.ecr_layers import OFFERED as OFFERED_IN_ECR
from tritonstack_local.sagemaker import ACCEPTED_WITHOUT_EFFECT
from tritonstack_local.sagemaker import UNSUPPORTED as UNSUPPORTED_IN_SAGEMAKER
from tritonstack_local.sagemaker.app import OFFERED
from tritonstack_local.sagemaker.invocations import OPERATIONS
from tritonstack_local.service.errors import sentence
from tritonstack_local.tagging import OFFERED as OFFERED_IN_TAGGING

_SERVICE_LIMITS = Path(__file__).with_name("coverage.yaml")
_TYPE_SERVICES = {
    "ApplicationAutoScaling": "Application Auto Scaling",
    "Logs": "CloudWatch Logs",
    "Events": "EventBridge",
}


@dataclass(frozen=True)
class TypeCapability:
    """One CloudFormation type: properties with and without effect, and the attributes of `Fn::GetAtt`."""

    type: str
    acted_on: tuple[str, ...]
    without_effect: tuple[str, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class Limit:
    """A difference from AWS, and the reason."""

    service: str
    name: str
    reason: str


@dataclass(frozen=True)
class Capabilities:
    """What the local cloud supports."""

    types: tuple[TypeCapability, ...]
    actions: Mapping[str, tuple[str, ...]]
    """Actions of the services implemented here; moto documents its own."""
    limits: tuple[Limit, ...]
    rejected: Mapping[str, str]
    """Types and fields, with the reasons."""

    def type_table(self) -> str:
        """Return the resource types as a Markdown table."""
        rows = [
            f"| {item.type} | {_listed(item.acted_on)} | {_listed(item.without_effect)} |"
            for item in self.types
        ]
        return "\n".join(["| type | properties acted on | accepted without effect |", "|---|---|---|", *rows])

    def limit_tables(self) -> str:
        """Return the differences from AWS, one Markdown table per service."""
        return "\n".join(_limit_lines(self.limits, heading="\n{}\n"))

    def rejection_table(self) -> str:
        """Return the rejected types and fields as a Markdown table."""
        return "\n".join(_reason_table(self.rejected))


def capabilities() -> Capabilities:
    """Return what the local cloud supports."""
    types = tuple(_type(name, provider) for name, provider in sorted(PROVIDERS.items()))
    return Capabilities(types, actions(), limits(), rejected())


def limits() -> tuple[Limit, ...]:
    """Return everything accepted without its effect on AWS, sorted by service."""
    items = [limit for provider in PROVIDERS.values() for limit in _limits_of(provider)]
    tables = {**_service_limits(), "SageMaker": ACCEPTED_WITHOUT_EFFECT, "CodeBuild": ACCEPTED_IN_CODEBUILD}
    for service, fields in tables.items():
        items += [Limit(service, field, sentence(reason)) for field, reason in fields.items()]
    return tuple(sorted(items, key=lambda limit: (limit.service.lower(), limit.name)))


def _service_limits() -> Mapping[str, Mapping[str, str]]:
    """Read the differences from AWS that apply to a whole service: service, feature, difference."""
    limits: Mapping[str, Mapping[str, str]] = load_yaml(_SERVICE_LIMITS.read_text())
    return limits


def rejected() -> dict[str, str]:
    """Return the types and fields that are rejected, with the reasons."""
    return {
        **UNSUPPORTED_TYPES,
        **UNSUPPORTED_IN_SAGEMAKER,
        **UNSUPPORTED_IN_CODEBUILD,
        **{f"PutMetricAlarm.{name}": reason for name, reason in NOT_SUPPORTED.items()},
        **UNSUPPORTED_IN_AUTO_SCALING,
    }


def actions() -> dict[str, tuple[str, ...]]:
    """Return the actions of the services implemented here; moto documents its own."""
    return {
        "CloudFormation": tuple(sorted(ACTIONS)),
        "Application Auto Scaling": tuple(sorted(OFFERED_IN_AUTO_SCALING)),
        "CodeBuild": tuple(sorted(OFFERED_IN_CODEBUILD)),
        "ECR layers": tuple(sorted(OFFERED_IN_ECR)),
        "Resource Groups Tagging": OFFERED_IN_TAGGING,
        "SageMaker": tuple(sorted(OFFERED)),
        "SageMaker runtime": OPERATIONS,
    }


def _limit_lines(items: Iterable[Limit], *, heading: str) -> list[str]:
    """Return one Markdown table per service, line by line."""
    lines: list[str] = []
    for service, group in groupby(items, key=lambda limit: limit.service):
        lines += [heading.format(service), *_reason_table({limit.name: limit.reason for limit in group})]
    return lines


def _reason_table(reasons: Mapping[str, str]) -> list[str]:
    """Return a Markdown table of names and reasons, line by line."""
    return ["| name | reason |", "|---|---|", *(f"| {name} | {reason} |" for name, reason in reasons.items())]


def _type(name: str, provider: Provider) -> TypeCapability:
    without = {key for key, rule in provider.properties.items() if not rule.effect or provider.kept_only}
    return TypeCapability(
        type=name,
        acted_on=tuple(sorted(provider.properties.keys() - without)),
        without_effect=tuple(sorted(without)),
        attributes=tuple(sorted(provider.attributes)),
    )


def _limits_of(provider: Provider) -> Iterator[Limit]:
    service = service_of(provider.type_name)
    if provider.kept_only:
        yield Limit(service, provider.type_name, provider.kept_only)
    for name, rule in provider.properties.items():
        if rule.reason:
            yield Limit(service, f"{provider.type_name}.{name}", rule.reason)
        for path, reason in rule.inner.items():
            yield Limit(service, f"{provider.type_name}.{name}.{path}", reason)


def service_of(type_name: str) -> str:
    """Return the display name of a CloudFormation type's service."""
    part = type_name.split("::")[1]
    return _TYPE_SERVICES.get(part, part)


_INTRODUCTION = """# Coverage of the local cloud

Generated by `python -m tritonstack_local.coverage packages/local_cloud/COVERAGE.md`; do not edit.

- **real**: the property or action has the same effect as on AWS.
- **emulated**: it is accepted, stored, and returned, but differs from AWS as described.
- **rejected**: the request fails with the reason given here. So does any resource type, property, or service
  that is not listed, except for services that [moto](https://docs.getmoto.org) implements.
"""


def coverage_page() -> str:
    """Return the page as Markdown."""
    found = capabilities()
    rows = [f"| {service} | {', '.join(names)} |" for service, names in found.actions.items()]
    lines = [
        _INTRODUCTION,
        "## Services with their own implementation\n",
        "| service | actions |",
        "|---|---|",
    ]
    lines += [*rows, "\n## CloudFormation resource types"]
    offered = sorted(found.types, key=lambda item: (service_of(item.type).lower(), item.type))
    for service, types in groupby(offered, key=lambda item: service_of(item.type)):
        lines += [f"\n### {service}\n", "| type | real | emulated | `Fn::GetAtt` |", "|---|---|---|---|"]
        for item in types:
            columns = map(_listed, (item.acted_on, item.without_effect, item.attributes))
            lines.append(f"| {item.type} | {' | '.join(columns)} |")
    lines += ["\n## Emulated: differences from AWS", *_limit_lines(found.limits, heading="\n### {}\n")]
    return "\n".join([*lines, "\n## Rejected\n", *_reason_table(found.rejected)]) + "\n"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "–"


def main() -> None:
    """Print the page, or write it to the file given as argument."""
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(coverage_page())
    else:
        sys.stdout.write(coverage_page())


if __name__ == "__main__":
    main()
