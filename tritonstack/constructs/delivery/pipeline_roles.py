"""IAM roles of the pipeline and its steps, with explicit policies: the CDK adds no permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tritonstack.constructs.builds.build_grants import write_build_log
from tritonstack.constructs.delivery.delivery_grants import assume_roles
from tritonstack.constructs.iam.granted_role import GrantedRole
from tritonstack.constructs.iam.grants import AwsScope, Grant, allow
from tritonstack.constructs.iam.service_role import ServiceRole

_HANDED = "objects that steps pass on; CodePipeline names them after its executions"

# Connections created before 2024 have the service's former name in their ARN.
_SERVICES = ("codeconnections", "codestar-connections")
# Permissions for a connection as a project's own source; CodeBuild tests it when the project is created.
_FETCHING = ("GetConnection", "GetConnectionToken")


@dataclass(frozen=True)
class PipelineResources:
    """Resources that all steps share."""

    name: str
    bucket: s3.IBucket
    key_arn: str
    log_group: str
    connection: str | None
    source: tuple[str, str] | None
    """Bucket and key of the repository's archive, if there is no connection."""


@dataclass(frozen=True)
class StepRole:
    """The role of the steps with one duty."""

    name: str
    assumes: Sequence[str] = ()
    """The roles that it may assume."""
    fetches: bool = False
    """Whether its project fetches the source itself instead of receiving it from the pipeline."""


class PipelineRoles(Construct):
    """Create the pipeline's roles; `steps` holds the roles of the steps, by duty."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        resources: PipelineResources,
        steps: Mapping[str, StepRole],
    ) -> None:
        super().__init__(scope, construct_id)
        self._resources, self._home = resources, AwsScope.of(self)
        self._steps = {step: self._step(step, role) for step, role in steps.items()}
        self._line = self._service("Line", "codepipeline", "IAM role for CodePipeline", "run-steps")
        self._line.allow([*self._handed(), *self._source(), self._builds()])
        self.line = self._fixed("FixedLine", self._line)
        self.steps = {step: self._fixed(f"Fixed-{step}", role) for step, role in self._steps.items()}

    @property
    def policies(self) -> list[iam.CfnPolicy]:
        """The policies that must exist before the pipeline runs."""
        return [role.policy for role in (self._line, *self._steps.values())]

    def step_role(self, step: str) -> GrantedRole:
        """Return the role of a step and its policy, for use as a dependency."""
        return self._steps[step]

    def _step(self, name: str, step_role: StepRole) -> GrantedRole:
        description = f"IAM role for the {name} steps"
        role = self._service(f"Step-{name}", "codebuild", description, name, role_name=step_role.name)
        role.allow(
            [
                *self._handed(),
                *self._source(also=_FETCHING if step_role.fetches else ()),
                write_build_log(self._home, self._resources.log_group),
                *assume_roles(list(step_role.assumes)),
            ]
        )
        return role

    def _service(
        self, construct_id: str, service: str, description: str, policy: str, role_name: str | None = None
    ) -> ServiceRole:
        return ServiceRole(
            self,
            construct_id,
            assumed_by={f"{service}.amazonaws.com": None},
            description=description,
            policy_name=policy,
            role_name=role_name,
        )

    def _handed(self) -> list[Grant]:
        arn = self._resources.bucket.bucket_arn
        return [
            allow("s3: GetObject GetObjectVersion PutObject", f"{arn}/*", because=_HANDED),
            allow("s3: GetBucketLocation GetBucketVersioning ListBucket", arn),
            allow("kms: Decrypt DescribeKey GenerateDataKey", self._resources.key_arn),
        ]

    def _source(self, *, also: Sequence[str] = ()) -> list[Grant]:
        if self._resources.source is None:
            actions = [f"{service}:{action}" for service in _SERVICES for action in ("UseConnection", *also)]
            return [Grant(actions, [str(self._resources.connection)])]
        name, key = self._resources.source
        arn = self._home.bucket(name)
        return [
            allow("s3: GetObject GetObjectVersion", f"{arn}/{key}"),
            allow("s3: GetBucketLocation GetBucketVersioning ListBucket", arn),
        ]

    def _builds(self) -> Grant:
        return allow(
            "codebuild: BatchGetBuilds StartBuild StopBuild",
            self._home.arn("codebuild", f"project/{self._resources.name}-*"),
            because="the projects of this pipeline's steps, named after it",
        )

    def _fixed(self, construct_id: str, role: GrantedRole) -> iam.IRole:
        """Return the same role in a form that CDK constructs cannot change."""
        return iam.Role.from_role_arn(self, construct_id, role.arn, mutable=False)
