"""Create the delivery pipeline inside AWS: from a commit to production, in a tools account.

Its steps run the same commands that a person would, each with the role of its duty in the target account
(stacks/delivery.py). The pipeline never updates itself or its permissions: an administrator deploys it with
`cdk deploy -c pipeline=main`, and again when the order of environments changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_s3 as s3
from aws_cdk import pipelines
from constructs import Construct

from tritonstack.base import naming
from tritonstack.base.error_kinds import NotApplicableError
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.naming import DeliveryRole
from tritonstack.base.paths import Project
from tritonstack.constructs.builds.build_project import STANDARD_IMAGE, BuildSettings, Source
from tritonstack.constructs.delivery import pipeline as steps
from tritonstack.constructs.delivery.pipeline import (
    PipelineResources,
    PipelineRoles,
    PipelineStore,
    StepRole,
    schedule_reaping,
)
from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.files.checks.regions import region_violations, region_warnings
from tritonstack.files.environment.delivery import DeliverySpec, PipelineDelivery, require_delivery
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import ProjectFiles


@dataclass(frozen=True)
class PipelinePlan:
    """The environments of a pipeline in order, and its delivery file."""

    delivery: DeliverySpec
    pipeline: PipelineDelivery
    environments: Sequence[EnvironmentSpec]
    setup: Sequence[str]
    """Commands that install the tool in each step."""
    approvals: Mapping[str, bool] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    """Warnings about services that the region may lack."""

    @property
    def prefix(self) -> str:
        """Return the prefix of the pipeline's names."""
        return self.environments[0].name_prefix

    @property
    def name(self) -> str:
        """Return the name of the pipeline and its stack."""
        return naming.pipeline_name(self.prefix)


def line_of(project: Project, branch: str) -> PipelinePlan:
    """Return the pipeline that the delivery file describes."""
    document = require_delivery(project)
    delivery = document.record
    if delivery.pipeline is None:
        raise NotApplicableError(
            f"{project.delivery_file.name} has no `pipeline` section",
            remedy="add `pipeline:` with the tools account, its region, and a source",
        )
    if branch != delivery.branch:
        raise NotApplicableError(
            f"{project.delivery_file.name} delivers branch {delivery.branch!r}, not {branch!r}",
            remedy=f"use -c pipeline={delivery.branch}",
        )
    if violations := list(region_violations(document)):
        raise InvalidFilesError(violations)
    files = ProjectFiles(project)
    return PipelinePlan(
        delivery,
        delivery.pipeline,
        [files.workspace(name).spec for name in delivery.names],
        steps.setup_commands(project),
        {item.name: item.approval for item in delivery.environments},
        [str(warning) for warning in region_warnings(document)],
    )


class PipelineStack(cdk.Stack):
    """The pipeline stack: source, build, synth; then per environment promote, deploy, and verify."""

    def __init__(self, scope: Construct, *, line: PipelinePlan) -> None:
        tools = line.pipeline
        super().__init__(
            scope,
            line.name,
            stack_name=line.name,
            description=f"tritonstack: delivery pipeline of {line.delivery.repository}",
            env=cdk.Environment(account=tools.account, region=tools.region),
            termination_protection=True,
            tags={"project": line.prefix, "purpose": "delivery"},
            permissions_boundary=cdk.PermissionsBoundary.from_name(tools.permissions_boundary)
            if tools.permissions_boundary
            else None,
            synthesizer=cdk.CliCredentialsStackSynthesizer(),
        )
        for warning in line.warnings:
            cdk.Annotations.of(self).add_warning_v2("tritonstack:region", warning)
        self._line = line
        self._home = AwsScope.of(self)
        self._store = PipelineStore(self, "Store", name=line.name)
        self._roles = self._all_roles()
        self._pipeline()
        self._reaping()

    def _all_roles(self) -> PipelineRoles:
        """Create one role per duty and environment; each may only assume the matching role in that account.

        Steps before an approval cannot reach roles that are used after it.
        """
        tools = self._line.pipeline
        roles = {"synth": self._step_role("synth")}
        for spec in self._line.environments:
            for duty in self._duties(spec):
                role_arn = steps.duty_role_arn(self._home, spec, duty)
                roles[_of(duty, spec)] = self._step_role(
                    _of(duty, spec), role_arn, fetches=duty == "clean-up"
                )
        return PipelineRoles(
            self,
            "Roles",
            resources=PipelineResources(
                name=self._line.name,
                bucket=self._store.bucket,
                key_arn=self._store.key.key_arn,
                log_group=self._store.log_name,
                connection=tools.connection,
                source=(tools.bucket.bucket, tools.bucket.key) if tools.bucket else None,
            ),
            steps=roles,
        )

    def _step_role(self, step: str, *assumes: str, fetches: bool = False) -> StepRole:
        return StepRole(naming.pipeline_role_name(self._line.prefix, step), assumes, fetches)

    def _duties(self, spec: EnvironmentSpec) -> list[DeliveryRole]:
        previews = self._line.delivery.previews
        promotes: list[DeliveryRole] = ["promote"] if spec.promotion else []
        cleans: list[DeliveryRole] = ["clean-up"] if previews and previews.environment == spec.name else []
        return ["deploy", *promotes, *cleans]

    def _pipeline(self) -> None:
        line = self._line
        resource = codepipeline.Pipeline(
            self,
            "Line",
            pipeline_name=line.name,
            pipeline_type=codepipeline.PipelineType.V2,
            # A newer execution replaces one that waits for a stage; an approval keeps its stage locked.
            execution_mode=codepipeline.ExecutionMode.SUPERSEDED,
            artifact_bucket=self._store.bucket,
            role=self._roles.line,
            use_pipeline_role_for_actions=True,
            restart_execution_on_update=False,
        )
        first, *others = line.environments
        source = self._source()
        build = self._step(steps.build_step(self._home, first), source, role=_of("deploy", first))
        locks = build.add_output_directory(steps.LOCKS)
        synth = self._step(steps.synth_step(first), source, role="synth", locks=locks, output="cdk.out")
        pipeline = pipelines.CodePipeline(
            self,
            "Steps",
            code_pipeline=resource,
            # An action with its own role requires the pipeline to pass that role; the pipeline's role is used
            # instead.
            use_pipeline_role_for_actions=True,
            synth=synth,
            # A self-updating pipeline would need permissions that no commit should have.
            self_mutation=False,
            code_build_defaults=self._defaults(),
        )
        self._wave(pipeline, first, source, locks, [])
        promoted: pipelines.IFileSetProducer = locks
        for spec in others:
            gate, promoted = self._promotion(spec, source, promoted)
            self._wave(pipeline, spec, source, promoted, gate)
        pipeline.build_pipeline()
        resource.node.add_dependency(*self._roles.policies)
        self._store.leave_to_roles()

    def _wave(
        self,
        pipeline: pipelines.CodePipeline,
        spec: EnvironmentSpec,
        source: pipelines.IFileSetProducer,
        locks: pipelines.IFileSetProducer,
        gate: Sequence[pipelines.Step],
    ) -> None:
        role = _of("deploy", spec)
        deploy = self._step(steps.deploy_step(self._home, spec), source, role=role, locks=locks)
        verify = self._step(steps.verify_step(self._home, spec), source, role=role, locks=locks)
        in_turn = [*gate, deploy, verify]
        for before, after in pairwise(in_turn):
            after.add_step_dependency(before)
        pipeline.add_wave(spec.name, pre=in_turn)

    def _promotion(
        self, spec: EnvironmentSpec, source: pipelines.IFileSetProducer, locks: pipelines.IFileSetProducer
    ) -> tuple[list[pipelines.Step], pipelines.IFileSetProducer]:
        """Return the steps before a deployment, and the locks that they produce."""
        gate: list[pipelines.Step] = []
        if self._line.approvals.get(spec.name):
            gate.append(pipelines.ManualApprovalStep(f"Approve-{spec.name}"))
        if spec.promotion is None:
            return gate, locks
        step = steps.promote_step(self._home, spec, spec.promotion.source)
        promote = self._step(step, source, role=_of("promote", spec), locks=locks)
        gate.append(promote)
        return gate, promote.add_output_directory(steps.LOCKS)

    def _step(
        self,
        step: steps.PipelineStep,
        source: pipelines.IFileSetProducer,
        *,
        role: str,
        locks: pipelines.IFileSetProducer | None = None,
        output: str | None = None,
    ) -> pipelines.CodeBuildStep:
        return pipelines.CodeBuildStep(
            step.name,
            input=source,
            additional_inputs={steps.HANDED: locks} if locks else None,
            install_commands=[*self._line.setup, *step.setup],
            commands=list(step.commands),
            primary_output_directory=output,
            project_name=f"{self._line.name}-{step.name.lower()}",
            role=self._roles.steps[role],
            timeout=cdk.Duration.hours(8),
        )

    def _defaults(self) -> pipelines.CodeBuildOptions:
        return pipelines.CodeBuildOptions(
            build_environment=codebuild.BuildEnvironment(
                build_image=codebuild.LinuxBuildImage.from_code_build_image_id(STANDARD_IMAGE),
                compute_type=codebuild.ComputeType.MEDIUM,
                privileged=False,
            ),
            partial_build_spec=codebuild.BuildSpec.from_object(
                {"version": "0.2", "phases": {"install": {"runtime-versions": steps.RUNTIMES}}}
            ),
            logging=codebuild.LoggingOptions(
                cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=self._store.log)
            ),
        )

    def _source(self) -> pipelines.CodePipelineSource:
        line, tools = self._line, self._line.pipeline
        if tools.bucket is not None:
            bucket = s3.Bucket.from_bucket_attributes(
                self, "Source", bucket_name=tools.bucket.bucket, account=tools.account, region=tools.region
            )
            return pipelines.CodePipelineSource.s3(bucket, tools.bucket.key, action_name="Source")
        return pipelines.CodePipelineSource.connection(
            line.delivery.repository,
            line.delivery.branch,
            connection_arn=str(tools.connection),
            action_name="Source",
            # Locks are compared with their git history.
            code_build_clone_output=True,
        )

    def _reaping(self) -> None:
        """Schedule the clean-up next to the environment of the previews; nothing else expires."""
        line, previews = self._line, self._line.delivery.previews
        if previews is None:
            return
        beside = next(spec for spec in line.environments if spec.name == previews.environment)
        schedule_reaping(
            self,
            "Reaping",
            name=f"{line.name}-reap",
            every_hours=line.pipeline.reap_every_hours,
            commands=[*line.setup, *steps.reap_commands(self._home, beside)],
            role=self._roles.step_role(_of("clean-up", beside)),
            # A run that takes longer than its interval does not overlap with the next.
            settings=BuildSettings(
                self._files(),
                self._store.log.log_group_name,
                self._store.key.key_arn,
                timeout_minutes=60,
                concurrent=1,
                queued_minutes=None,
            ),
        )

    def _files(self) -> Source:
        """Return the source of a build that runs outside the pipeline."""
        tools = self._line.pipeline
        if tools.bucket is not None:
            return Source(type="S3", location=f"{tools.bucket.bucket}/{tools.bucket.key}")
        return Source(
            type="GITHUB",
            location=f"https://github.com/{self._line.delivery.repository}.git",
            auth=codebuild.CfnProject.SourceAuthProperty(type="CODECONNECTIONS", resource=tools.connection),
        )


def _of(duty: DeliveryRole, spec: EnvironmentSpec) -> str:
    return naming.pipeline_duty(duty, spec.name)
