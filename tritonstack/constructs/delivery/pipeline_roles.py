"""What the pipeline and its steps run with. Each says itself what it may do: the CDK adds nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tritonstack.constructs.builds.build_grants import write_build_log
from tritonstack.constructs.delivery.delivery_grants import take_on
from tritonstack.constructs.iam.granted_role import GrantedRole
from tritonstack.constructs.iam.grants import Grant, Home
from tritonstack.constructs.iam.service_role import ServiceRole

_HANDED = "what steps hand on, which CodePipeline names after its executions"

# Connections made before 2024 are still named after the service's former name.
_SERVICES = ("codeconnections", "codestar-connections")
# What a project does with a connection that is its own source; CodeBuild tries it when the project is made.
_FETCHING = ("GetConnection", "GetConnectionToken")


@dataclass(frozen=True)
class PipelineGround:
    """What all steps share."""

    name: str
    bucket: s3.IBucket
    key_arn: str
    log_group: str
    connection: str | None
    source: tuple[str, str] | None
    """Bucket and key of the repository's archive, in place of a connection."""


@dataclass(frozen=True)
class StepRole:
    """What steps of one duty run with."""

    name: str
    takes_on: Sequence[str] = ()
    """The roles that it is the way to."""
    fetches: bool = False
    """Whether its project fetches the files itself, which no pipeline hands to it."""


class PipelineRoles(Construct):
    """`steps` are the roles that steps run with, by their duties."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        ground: PipelineGround,
        steps: Mapping[str, StepRole],
    ) -> None:
        super().__init__(scope, construct_id)
        self._ground, self._home = ground, Home.of(self)
        self._steps = {what: self._step(what, role) for what, role in steps.items()}
        self._line = self._service("Line", "codepipeline", "CodePipeline moves changes with it", "run-steps")
        self._line.allow([*self._handed(), *self._source(), self._builds()])
        self.line = self._fixed("FixedLine", self._line)
        self.steps = {what: self._fixed(f"Fixed-{what}", role) for what, role in self._steps.items()}

    @property
    def policies(self) -> list[iam.CfnPolicy]:
        """What has to stand before anything runs."""
        return [role.policy for role in (self._line, *self._steps.values())]

    def own(self, what: str) -> GrantedRole:
        """A step's role with its policy, for what has to wait for that."""
        return self._steps[what]

    def _step(self, what: str, wanted: StepRole) -> GrantedRole:
        description = f"The steps of {what} run with it"
        role = self._service(f"Step-{what}", "codebuild", description, what, role_name=wanted.name)
        role.allow(
            [
                *self._handed(),
                *self._source(also=_FETCHING if wanted.fetches else ()),
                write_build_log(self._home, self._ground.log_group),
                *take_on(list(wanted.takes_on)),
            ]
        )
        return role

    def _service(
        self, construct_id: str, service: str, description: str, policy: str, role_name: str | None = None
    ) -> ServiceRole:
        return ServiceRole(
            self,
            construct_id,
            taken_on_by={f"{service}.amazonaws.com": None},
            description=description,
            policy_name=policy,
            role_name=role_name,
        )

    def _handed(self) -> list[Grant]:
        arn = self._ground.bucket.bucket_arn
        return [
            Grant(["s3:GetObject", "s3:GetObjectVersion", "s3:PutObject"], [f"{arn}/*"], because=_HANDED),
            Grant(["s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:ListBucket"], [arn]),
            Grant(["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"], [self._ground.key_arn]),
        ]

    def _source(self, *, also: Sequence[str] = ()) -> list[Grant]:
        if self._ground.source is None:
            actions = [f"{service}:{action}" for service in _SERVICES for action in ("UseConnection", *also)]
            return [Grant(actions, [str(self._ground.connection)])]
        name, key = self._ground.source
        arn = self._home.bucket(name)
        return [
            Grant(["s3:GetObject", "s3:GetObjectVersion"], [f"{arn}/{key}"]),
            Grant(["s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:ListBucket"], [arn]),
        ]

    def _builds(self) -> Grant:
        return Grant(
            ["codebuild:BatchGetBuilds", "codebuild:StartBuild", "codebuild:StopBuild"],
            [self._home.arn("codebuild", f"project/{self._ground.name}-*")],
            because="the projects of this pipeline's steps, which are named after it",
        )

    def _fixed(self, construct_id: str, role: GrantedRole) -> iam.IRole:
        """The same role, to which the CDK's own constructs can add nothing."""
        return iam.Role.from_role_arn(self, construct_id, role.arn, mutable=False)
