"""The commands of each pipeline step, and the role of its duty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tritonstack.base import naming
from tritonstack.base.error_kinds import NotApplicableError
from tritonstack.base.naming import DeliveryRole
from tritonstack.base.paths import Project, is_source_tree
from tritonstack.constructs.builds.build_grants import write_build_log
from tritonstack.constructs.builds.build_project import (
    STANDARD_IMAGE,
    BuildMachine,
    BuildSettings,
    BuildTask,
    build_project,
)
from tritonstack.constructs.data.buckets import abort_incomplete_uploads, encryption_key, private_bucket
from tritonstack.constructs.delivery.delivery_grants import assume_roles
from tritonstack.constructs.iam.granted_role import GrantedRole, ServiceRole
from tritonstack.constructs.iam.grants import AwsScope, Grant, allow
from tritonstack.constructs.iam.skipped_checks import skip_check
from tritonstack.files.environment.environment import EnvironmentSpec

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


RUNTIMES = {"python": "3.12", "nodejs": "22"}
LOCKS = "environments"
"""The folder that steps pass on: builds and promotions change only files in it."""
HANDED = "handed"
"""Where a step finds the locks from the previous step."""

_PATH = 'export PATH="$PWD/.venv/bin:$PATH"'
LOCK_FILE = "requirements.lock.txt"
_SETUP = (
    "python3 -m venv .venv",
    _PATH,
    f"pip install --quiet --no-deps --require-hashes --requirement {LOCK_FILE}",
    "pip install --quiet --no-deps --requirement requirements.txt",
    "tritonstack setup --no-server",
)
_SETUP_OF_SOURCE_TREE = ("make setup-cli", _PATH)
_TAKE_LOCKS = f"cp {HANDED}/*.lock.yaml {LOCKS}/"


@dataclass(frozen=True)
class PipelineStep:
    """One pipeline step."""

    name: str
    setup: Sequence[str]
    """Follows the commands that install the tool."""
    commands: Sequence[str]


def setup_commands(project: Project) -> Sequence[str]:
    """Install what every step needs: the tool that requirements.txt pins, and the CDK CLI.

    requirements.txt of tritonstack's own repository lists no tritonstack: `make` installs it from the source.
    """
    if is_source_tree(project):
        return _SETUP_OF_SOURCE_TREE
    if not (project.root / LOCK_FILE).is_file():
        raise NotApplicableError(
            f"the steps of the pipeline install {LOCK_FILE}, which does not exist",
            remedy="run `tritonstack upgrade` to write it, and commit it with requirements.txt",
        )
    return _SETUP


def build_step(aws: AwsScope, spec: EnvironmentSpec) -> PipelineStep:
    """Build and lock what is missing, on the machines from the catalog, GPUs included.

    The jobs run in the environment's account; this step starts and follows them.
    """
    setup = use_role(aws, spec, "deploy")
    return PipelineStep(f"Build-{spec.name}", setup, (f"tritonstack build {spec.name}",))


def synth_step(spec: EnvironmentSpec) -> PipelineStep:
    """Validate all files and synthesize the stacks."""
    commands = (_TAKE_LOCKS, "tritonstack validate", f"cdk synth --quiet -c env={spec.name}")
    return PipelineStep("Synth", (), commands)


def deploy_step(aws: AwsScope, spec: EnvironmentSpec) -> PipelineStep:
    """Deploy, in two phases if SageMaker requires it, and sync the model prefixes."""
    return _with_locks(f"Deploy-{spec.name}", aws, spec, "deploy", f"tritonstack deploy {spec.name}")


def verify_step(aws: AwsScope, spec: EnvironmentSpec) -> PipelineStep:
    """Verify the deployed endpoints; the next promotion depends on the verdict."""
    return _with_locks(f"Verify-{spec.name}", aws, spec, "deploy", f"tritonstack verify {spec.name}")


def promote_step(aws: AwsScope, spec: EnvironmentSpec, source: str) -> PipelineStep:
    """Check the promotion gates and copy the source's artifacts to the environment's account."""
    command = f"tritonstack promote {source} {spec.name}"
    return _with_locks(f"Promote-{spec.name}", aws, spec, "promote", command)


def reap_commands(aws: AwsScope, spec: EnvironmentSpec) -> tuple[str, ...]:
    """Destroy expired previews."""
    command = f"tritonstack reap --account {spec.account} --region {spec.region}"
    return (*use_role(aws, spec, "clean-up"), command)


def use_role(aws: AwsScope, spec: EnvironmentSpec, duty: DeliveryRole) -> tuple[str, ...]:
    """Assume the role of an environment's account for one duty, starting from the step's own role."""
    profile = f"{spec.name}-{duty}"
    settings = {
        "role_arn": duty_role_arn(aws, spec, duty),
        "credential_source": "EcsContainer",
        "region": spec.region,
    }
    configure = (f"aws configure set profile.{profile}.{key} {value}" for key, value in settings.items())
    return (*configure, f"export AWS_PROFILE={profile}")


def duty_role_arn(aws: AwsScope, spec: EnvironmentSpec, duty: DeliveryRole) -> str:
    """Return the ARN of the role that an environment's account has for a duty."""
    target = AwsScope(aws.partition, spec.region, spec.account)
    return target.iam(f"role/{naming.delivery_role_name(spec.delivery_base, duty)}")


def _with_locks(
    name: str, aws: AwsScope, spec: EnvironmentSpec, duty: DeliveryRole, command: str
) -> PipelineStep:
    return PipelineStep(name, use_role(aws, spec, duty), (_TAKE_LOCKS, command))


_KEPT_DAYS = 30


class PipelineStore(Construct):
    """Create the stores with their retention: files for a month, logs for a year."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str) -> None:
        super().__init__(scope, construct_id)
        self.log_name = f"/{name}/steps"
        self.key = encryption_key(
            self,
            "Encryption",
            alias=naming.key_alias(name),
            description=f"Encrypts the files and logs of the pipeline {name}",
            removal=cdk.RemovalPolicy.RETAIN,
            log_groups=[self.log_name],
        )
        self.log = logs.LogGroup(
            self,
            "Log",
            log_group_name=self.log_name,
            retention=logs.RetentionDays.ONE_YEAR,
            encryption_key=self.key,
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        self._bucket = self._handed()
        self.bucket = s3.Bucket.from_bucket_attributes(
            self,
            "Given",
            bucket_name=self._bucket.bucket_name,
            encryption_key=kms.Key.from_key_arn(self, "GivenKey", self.key.key_arn),
        )
        """Return the key or bucket in a form that CDK constructs cannot change; roles define their
        permissions."""

    def leave_to_roles(self) -> None:
        """Remove the log group access that the CDK grants to the whole account."""
        self.log.node.try_remove_child("Policy")

    def _handed(self) -> s3.Bucket:
        bucket = private_bucket(
            self,
            "Handed",
            key=self.key,
            any_key=True,
            removal_policy=cdk.RemovalPolicy.RETAIN,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="expire",
                    expiration=cdk.Duration.days(_KEPT_DAYS),
                    noncurrent_version_expiration=cdk.Duration.days(1),
                ),
                abort_incomplete_uploads(),
            ],
        )
        because = "objects expire after a month; CodePipeline's history records who received them"
        cdk.Validations.of(bucket).acknowledge(
            cdk.Acknowledgment(id="AwsSolutions::AwsSolutions-S1", reason=because)
        )
        skip_check(bucket, "CKV_AWS_18", because=because)
        return bucket


def schedule_reaping(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    every_hours: int,
    commands: Sequence[str],
    role: GrantedRole,
    settings: BuildSettings,
) -> None:
    """Create a rule that starts a build, which runs `tritonstack reap`."""
    scope = Construct(scope, construct_id)
    phases = {"install": {"runtime-versions": RUNTIMES}, "build": {"commands": list(commands)}}
    project = build_project(
        scope,
        task=BuildTask(
            name=name,
            description="Destroys expired environments",
            role=role,
            buildspec={"version": "0.2", "phases": phases},
            log_stream="reap",
        ),
        machine=BuildMachine("LINUX_CONTAINER", "BUILD_GENERAL1_MEDIUM", STANDARD_IMAGE, privileged=None),
        settings=settings,
    )
    clock = ServiceRole(
        scope,
        "Clock",
        assumed_by={"events.amazonaws.com": None},
        description="IAM role for the EventBridge rule that starts the clean-up",
        policy_name="start-clean-up",
    )
    clock.allow([allow("codebuild: StartBuild", project.attr_arn)])
    rule = events.CfnRule(
        scope,
        "Rule",
        name=name,
        description="Starts the clean-up of expired environments",
        schedule_expression=f"rate({every_hours} {'hour' if every_hours == 1 else 'hours'})",
        targets=[events.CfnRule.TargetProperty(id="reap", arn=project.attr_arn, role_arn=clock.arn)],
    )
    rule.node.add_dependency(clock.policy)
