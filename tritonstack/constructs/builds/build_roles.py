"""IAM roles of model builds: one shared role, and one per model that runs custom code.

Custom code can read and write only the objects of its own model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from constructs import Construct

from tritonstack.base import naming
from tritonstack.base.error_kinds import ConstructError
from tritonstack.constructs.builds.build_grants import (
    keep_artifacts,
    read_secret,
    read_sources,
    write_build_log,
)
from tritonstack.constructs.data.stored_values import share_value
from tritonstack.constructs.iam.granted_role import ServiceRole
from tritonstack.constructs.iam.grants import AwsScope, Conditions, Grant, write_log
from tritonstack.files.model.build_permissions import BuildPermissions
from tritonstack.files.project.build_machines import BuildMachine, CodeBuildMachine, ProcessingMachine

MOST_OWN_ROLES = 150
"""A CloudFormation stack holds at most 500 resources; each role adds three: role, policy, and parameter."""


@dataclass(frozen=True)
class BuildLocation:
    """Where build jobs run, and what all of them need."""

    base: str
    bucket: str
    key_arn: str
    log_group: str
    token_secret: str | None
    machines: Sequence[BuildMachine]
    grants: Sequence[Grant]
    """Permissions to fetch the source and the image."""


def build_roles(
    scope: Construct, construct_id: str, *, place: BuildLocation, models: Mapping[str, BuildPermissions]
) -> ServiceRole:
    """Create the build roles; return the one of models without custom code."""
    scope = Construct(scope, construct_id)
    custom = {name: reach for name, reach in models.items() if reach.own_code}
    others = [reach for reach in models.values() if not reach.own_code]
    if len(custom) > MOST_OWN_ROLES:
        raise ConstructError(
            f"{len(custom)} models run custom code; a stack holds at most {MOST_OWN_ROLES} build roles",
            remedy="move some models to another environment, or set `builds: {enabled: false}` and build on "
            "your own machine",
        )
    shared = _role(scope, "Shared", place, naming.MODELS if others else None, others)
    for name, reach in sorted(custom.items()):
        role = _role(scope, f"Own-{name}", place, naming.model_prefix(name), [reach])
        share_value(
            scope,
            f"Role-{name}",
            name=naming.parameter_name(place.base, naming.build_role_parameter(name)),
            value=role.arn,
            description=f"IAM role for builds of {name}, which runs custom code",
        )
    return shared


def _role(
    scope: Construct,
    construct_id: str,
    place: BuildLocation,
    prefix: str | None,
    reaches: Sequence[BuildPermissions],
) -> ServiceRole:
    aws = AwsScope.of(scope)
    role = ServiceRole(
        scope,
        construct_id,
        assumed_by=_assumed_by(aws, place),
        description="IAM role for model builds",
        policy_name="build-models",
    )
    role.allow([*place.grants, *_logs(aws, place)])
    if prefix:
        role.allow(keep_artifacts(aws, place.bucket, prefix, place.key_arn))
    role.allow(read_sources(aws, sorted({url for reach in reaches for url in reach.buckets})))
    if place.token_secret and any(reach.hub for reach in reaches):
        role.allow(read_secret(aws, place.token_secret, place.key_arn))
    return role


def _assumed_by(aws: AwsScope, place: BuildLocation) -> dict[str, Conditions | None]:
    projects = [
        aws.arn("codebuild", f"project/{machine.project}")
        for machine in place.machines
        if isinstance(machine, CodeBuildMachine)
    ]
    jobs = aws.arn("sagemaker", f"processing-job/{place.base}-build-*")
    services: dict[str, Conditions | None] = {}
    if projects:
        services["codebuild.amazonaws.com"] = {"StringEquals": {"aws:SourceArn": projects}}
    if _processing(place):
        services["sagemaker.amazonaws.com"] = {"ArnLike": {"aws:SourceArn": jobs}}
    return services


def _logs(aws: AwsScope, place: BuildLocation) -> list[Grant]:
    codebuild = any(isinstance(machine, CodeBuildMachine) for machine in place.machines)
    return [
        *([write_build_log(aws, place.log_group)] if codebuild else []),
        *([write_log(aws, naming.PROCESSING_LOG_GROUP)] if _processing(place) else []),
    ]


def _processing(place: BuildLocation) -> bool:
    return any(isinstance(machine, ProcessingMachine) for machine in place.machines)
