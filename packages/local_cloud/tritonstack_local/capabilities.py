"""What the embedded cloud can do and what it cannot, told from its parts: `tritonstack up --capabilities`.

Nothing is left out in silence: what is accepted without its effect on AWS stands here with the reason. It
is told by the providers for properties and their members, by SageMaker's tables for its fields, by CloudWatch
for alarms, and here for what belongs to no single field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from tritonstack_local.cloudformation.actions import ACTIONS
from tritonstack_local.cloudformation.providers import PROVIDERS
from tritonstack_local.cloudformation.providers.base import Provider
from tritonstack_local.cloudformation.providers.refused import REFUSED_TYPES
from tritonstack_local.cloudwatch.alarms.spec import NOT_BUILT
from tritonstack_local.codebuild.app import OFFERED as OFFERED_IN_CODEBUILD
from tritonstack_local.codebuild.refusals import ACCEPTED_WITHOUT_EFFECT as ACCEPTED_IN_CODEBUILD
from tritonstack_local.codebuild.refusals import REFUSED as REFUSED_IN_CODEBUILD
from tritonstack_local.codepipeline.app import OFFERED as OFFERED_IN_CODEPIPELINE
from tritonstack_local.codepipeline.refusals import ACCEPTED_WITHOUT_EFFECT as ACCEPTED_IN_CODEPIPELINE
from tritonstack_local.codepipeline.refusals import REFUSED as REFUSED_IN_CODEPIPELINE
from tritonstack_local.ecr.app import OFFERED as OFFERED_IN_ECR
from tritonstack_local.moto_patches.alarms import NO_SUPPRESSION, SUPPRESSION
from tritonstack_local.sagemaker import ACCEPTED_WITHOUT_EFFECT
from tritonstack_local.sagemaker import REFUSED as REFUSED_IN_SAGEMAKER
from tritonstack_local.sagemaker.control_plane.app import OFFERED
from tritonstack_local.service.faults import sentence
from tritonstack_local.tagging.app import OFFERED as OFFERED_IN_TAGGING

_TYPE_SERVICES = {
    "ApplicationAutoScaling": "Application Auto Scaling",
    "Logs": "CloudWatch Logs",
    "Events": "EventBridge",
}

OF_SERVICES: tuple[tuple[str, str, str], ...] = (
    (
        "Application Auto Scaling",
        "scaling",
        "Targets and policies are registered and read back; nothing scales.",
    ),
    ("Application Auto Scaling", "alarms", "The alarms that AWS makes for target tracking are not made."),
    (
        "CloudWatch",
        "time",
        "Periods are as long as the cloud's minutes; a value is kept for three hours at least.",
    ),
    ("CloudWatch", "alarms' history", "It goes with its alarm, and holds the last 500 entries."),
    ("CloudWatch", "a restart", "Values are forgotten, alarms are kept."),
    ("CloudWatch", "metrics", "Endpoints publish theirs; other services publish none."),
    ("CloudWatch", "alarms' events", "Alarms tell topics alone; EventBridge hears nothing of them."),
    ("CloudWatch", "anomaly detection, PromQL, Metrics Insights", "They are refused."),
    (
        "CloudWatch Logs",
        "retention and encryption",
        "Settings are kept and read back; lines stay, and stay plain.",
    ),
    ("EC2", "networks", "They are kept and read back; there is no network behind them."),
    (
        "CodePipeline",
        "actions",
        "Sources in S3, CodeBuild, CloudFormation and approvals are carried out; others are refused.",
    ),
    ("CodePipeline", "state changes", "EventBridge hears nothing of executions."),
    (
        "ECR",
        "images",
        "The API takes and gives them; docker push and pull do not. Scanning and lifecycle are kept alone.",
    ),
    ("ECR", "layers", "An image needs its layers; its config and the images of an index are not looked for."),
    ("EventBridge", "events", "Endpoints send theirs; stacks and other services send none."),
    ("EventBridge", "schedules", "They are kept and read back; no rule runs by the clock."),
    ("IAM", "permissions", "Roles and policies are kept and read back; only bucket policies are enforced."),
    ("KMS", "encryption", "Keys encrypt what is given to Encrypt; no other service encrypts with them."),
    (
        "Resource Groups Tagging",
        "aws:cloudformation tags",
        "Resources get their stack's own tags, and not these.",
    ),
    (
        "S3",
        "lifecycle and public access",
        "Settings are kept and read back; objects stay, and stay as they are.",
    ),
    ("SNS", "delivery", "Messages reach queues and web servers; no mail or text message is sent."),
    (
        "STS",
        "trust policies",
        "Everybody may assume a role that exists; no web identity is checked.",
    ),
    ("STS", "signatures", "An access key names the caller; no signature is checked, and no session ends."),
)
"""What of a service as a whole differs from AWS: the service, what, how."""


@dataclass(frozen=True)
class TypeCapability:
    """One CloudFormation type: what is acted on, what is taken without effect, what `Fn::GetAtt` answers."""

    type: str
    acted_on: tuple[str, ...]
    without_effect: tuple[str, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class Limit:
    """Something that is not as on AWS, and why."""

    service: str
    what: str
    why: str


def capabilities() -> tuple[TypeCapability, ...]:
    """Return every type, in the order of the alphabet."""
    return tuple(_type(name, provider) for name, provider in sorted(PROVIDERS.items()))


def limits() -> tuple[Limit, ...]:
    """Return everything that is accepted but has not the effect that it has on AWS, by service."""
    found = [Limit(*of_service) for of_service in OF_SERVICES]
    for provider in PROVIDERS.values():
        found += _limits_of(provider)
    for service, fields in (
        ("SageMaker", ACCEPTED_WITHOUT_EFFECT),
        ("CodeBuild", ACCEPTED_IN_CODEBUILD),
        ("CodePipeline", ACCEPTED_IN_CODEPIPELINE),
    ):
        found += [Limit(service, field, sentence(why)) for field, why in fields.items()]
    return tuple(sorted(found, key=lambda limit: (limit.service.lower(), limit.what)))


def refused() -> dict[str, str]:
    """Return the types and the fields that are known and refused, with the reasons."""
    alarms = {f"PutMetricAlarm.{name}": why for name, why in NOT_BUILT.items()}
    composites = {f"PutCompositeAlarm.{name}": NO_SUPPRESSION for name in SUPPRESSION}
    return {
        **REFUSED_TYPES,
        **REFUSED_IN_SAGEMAKER,
        **REFUSED_IN_CODEBUILD,
        **REFUSED_IN_CODEPIPELINE,
        **alarms,
        **composites,
    }


def actions() -> dict[str, tuple[str, ...]]:
    """Return the actions of this cloud's own services; moto's are in its documentation."""
    return {
        "CloudFormation": tuple(sorted(ACTIONS)),
        "CodeBuild": tuple(sorted(OFFERED_IN_CODEBUILD)),
        "CodePipeline": tuple(sorted(OFFERED_IN_CODEPIPELINE)),
        "ECR layers": tuple(sorted(OFFERED_IN_ECR)),
        "Resource Groups Tagging": OFFERED_IN_TAGGING,
        "SageMaker": tuple(sorted(OFFERED)),
        "SageMaker runtime": ("InvokeEndpoint",),
    }


def capability_table() -> str:
    """Return the types as a Markdown table."""
    rows = [
        f"| {item.type} | {', '.join(item.acted_on) or '–'} | {', '.join(item.without_effect) or '–'} |"
        for item in capabilities()
    ]
    return "\n".join(["| type | properties acted on | accepted without effect |", "|---|---|---|", *rows])


def limit_tables() -> str:
    """Return what is accepted without its effect on AWS: for each service a Markdown table."""
    lines: list[str] = []
    for service, found in groupby(limits(), key=lambda limit: limit.service):
        lines += [f"\n{service}\n", *reason_table({limit.what: limit.why for limit in found})]
    return "\n".join(lines)


def reason_table(reasons: Mapping[str, str]) -> list[str]:
    """Return the lines of a Markdown table of things and their reasons."""
    return ["| what | why |", "|---|---|", *(f"| {what} | {why} |" for what, why in reasons.items())]


def _type(name: str, provider: Provider) -> TypeCapability:
    without = {key for key, known in provider.properties.items() if not known.effect or provider.kept_only}
    return TypeCapability(
        type=name,
        acted_on=tuple(sorted(provider.properties.keys() - without)),
        without_effect=tuple(sorted(without)),
        attributes=tuple(sorted(provider.attribute_names)),
    )


def _limits_of(provider: Provider) -> Iterator[Limit]:
    service = service_of(provider.type_name)
    if provider.kept_only:
        yield Limit(service, provider.type_name, provider.kept_only)
    for name, known in provider.properties.items():
        if known.why:
            yield Limit(service, f"{provider.type_name}.{name}", known.why)
        for path, why in known.inner.items():
            yield Limit(service, f"{provider.type_name}.{name}.{path}", why)


def service_of(type_name: str) -> str:
    """Return the service that a CloudFormation type belongs to, as people call it."""
    part = type_name.split("::")[1]
    return _TYPE_SERVICES.get(part, part)
