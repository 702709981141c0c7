"""Create the delivery roles of one environment, for GitHub workflows and for the pipeline inside AWS.

An administrator deploys it: `cdk deploy -c delivery=dev`. It is not part of the environment, so no workflow
can deploy or change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from constructs import Construct

from tritonstack.base import naming
from tritonstack.base.error_kinds import DeliveryError, UnknownNameError
from tritonstack.base.naming import DeliveryRole
from tritonstack.base.paths import Project
from tritonstack.constructs.builds.build_grants import push_images
from tritonstack.constructs.delivery import delivery_grants as grants
from tritonstack.constructs.delivery import preview_grants
from tritonstack.constructs.delivery.bounds import Bounds, DeliveryBounds, role_bounds
from tritonstack.constructs.delivery.delivery_grants import promotion_reader, reading_grants, resuming_grants
from tritonstack.constructs.delivery.execution_policy import (
    execution_grants,
    execution_policies,
    explain_services,
    scaling_role_arn,
)
from tritonstack.constructs.delivery.github_trust import (
    github_provider,
    github_trust,
    provider_arn,
    role_trust,
)
from tritonstack.constructs.iam.granted_role import GrantedRole, ServiceRole, explain_pattern
from tritonstack.constructs.iam.grants import AwsScope, Grant
from tritonstack.constructs.iam.skipped_checks import skip_check
from tritonstack.facts.bootstrap import BootstrapRole
from tritonstack.files.environment.delivery import DeliverySpec, require_delivery
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import ProjectFiles, sample_instance


@dataclass(frozen=True)
class DeliveryTarget:
    """An environment and its neighbors in the delivery order."""

    spec: EnvironmentSpec
    delivery: DeliverySpec
    makes_provider: bool
    """Whether this environment's stack creates the account's GitHub OIDC provider."""
    source: EnvironmentSpec | None
    """The environment that it is promoted from."""
    promoted_to: Sequence[EnvironmentSpec]
    """The environments that are promoted from it."""
    preview: EnvironmentSpec | None
    """A sample preview, if previews run next to this environment."""

    @property
    def base(self) -> str:
        """Return the prefix of its role names."""
        return self.spec.delivery_base


def delivery_target(project: Project, environment: str) -> DeliveryTarget:
    """Collect the inputs of one environment's delivery stack."""
    delivery = require_delivery(project).record
    if environment not in delivery.names:
        raise UnknownNameError(
            f"environment {environment!r} is not in {project.delivery_file.name}",
            remedy=f"choose one of: {', '.join(delivery.names)}",
        )
    files = ProjectFiles(project)
    specs = {name: files.workspace(name).spec for name in delivery.names}
    spec = specs[environment]
    has_provider = spec.account in delivery.providers_exist
    first_in_account = next(name for name, other in specs.items() if other.account == spec.account)
    previews = delivery.previews
    has_previews = previews is not None and previews.environment == environment
    preview = files.instance(sample_instance(previews.template)).spec if previews and has_previews else None
    if preview is not None and preview.permissions_boundary is None:
        boundary = naming.preview_boundary_name(spec.delivery_base)
        raise DeliveryError(
            "previews have no permissions boundary: a pull request could create a role with any permission",
            remedy=f"add `permissions_boundary: {boundary}` to the preview template",
        )
    sharing = [name for name, other in specs.items() if preview and preview.bootstrap == other.bootstrap]
    if sharing:
        raise DeliveryError(
            f"previews would share the bootstrap bucket that deployments of {', '.join(sharing)} read from",
            remedy="set a separate `bootstrap_qualifier` in the preview template",
        )
    return DeliveryTarget(
        spec=spec,
        delivery=delivery,
        makes_provider=first_in_account == environment and not has_provider,
        source=specs[spec.promotion.source] if spec.promotion else None,
        promoted_to=[
            other for other in specs.values() if other.promotion and other.promotion.source == environment
        ],
        preview=preview,
    )


_SESSION_HOURS: Mapping[DeliveryRole, int] = {
    "plan": 1,
    "deploy": 6,
    "promote": 3,
    "preview": 3,
    "clean-up": 2,
}
"""A rollout with waits can take hours, and so can a build on a GPU."""
_PUBLISHING: Sequence[BootstrapRole] = ("file-publishing", "image-publishing")
_DEPLOYING: Sequence[BootstrapRole] = ("deploy", *_PUBLISHING, "lookup")


class DeliveryStack(cdk.Stack):
    """Create the roles for plan, deploy, promote, previews, and clean-up, and the role for promoting
    accounts."""

    def __init__(self, scope: Construct, *, target: DeliveryTarget) -> None:
        spec = target.spec
        shared_tags = {key: value for key, value in spec.tags.items() if key != "environment"}
        tags = {**shared_tags, "project": spec.name_prefix, "purpose": f"delivery of {spec.name}"}
        super().__init__(
            scope,
            target.base,
            stack_name=target.base,
            description=f"tritonstack: delivery roles of {spec.name}",
            env=cdk.Environment(account=spec.account, region=spec.region),
            termination_protection=True,
            tags=tags,
            # Deployed with the administrator's permissions, not with those of the workflows.
            synthesizer=cdk.CliCredentialsStackSynthesizer(),
        )
        for key, value in tags.items():
            cdk.Tags.of(self).add(key, value)
        self._target = target
        self._home = AwsScope.of(self)
        self._names = grants.NamePatterns.like(self._home, spec)
        self._provider = provider_arn(partition=self._home.partition, account=spec.account)
        self._first: list[Construct] = []
        if target.makes_provider:
            self._first.append(github_provider(self, "Github"))
        roles = [*self._duties(), *self._previews()]
        self._reader()
        policies = [policy.ref for policy in execution_policies(self, environment=spec)]
        cdk.CfnOutput(self, "ExecutionPolicies", value=",".join(policies))
        bounds = DeliveryBounds(
            self,
            "Bounds",
            name=naming.delivery_boundary_name(target.base),
            bounds=self._edge(),
            own_boundary=spec.permissions_boundary,
        )
        bounds.enclose([role.name for role in roles])

    def _duties(self) -> list[GrantedRole]:
        target, delivery = self._target, self._target.delivery
        branch = [delivery.branch_subject]
        roles = [
            self._role("plan", [delivery.pull_request_subject, *branch], self._plan()),
            self._role(
                "deploy", [delivery.environment_subject(target.spec.name)], self._deploy(), ref=delivery.ref
            ),
            self._role("clean-up", branch, self._clean_up()),
        ]
        if target.source is not None:
            roles.append(self._role("promote", branch, self._promote(target.source)))
        return roles

    def _previews(self) -> list[GrantedRole]:
        preview = self._target.preview
        if preview is None:
            return []
        patterns = self._named_previews(preview)
        boundary = str(preview.permissions_boundary)
        if boundary == naming.preview_boundary_name(self._target.base):
            role_bounds(
                self,
                "PreviewBounds",
                name=boundary,
                patterns=patterns,
                description="Bounds the roles inside previews",
            )
        execution = ServiceRole(
            self,
            "PreviewExecution",
            assumed_by={"cloudformation.amazonaws.com": None},
            role_name=naming.preview_execution_role_name(self._target.base),
            description="IAM role for CloudFormation to create previews",
            policy_name="make-previews",
        )
        execution.allow(
            execution_grants(
                patterns,
                boundary_arn=self._home.iam(f"policy/{boundary}"),
                network=bool(preview.network and preview.network.create),
            )
        )
        explain_services(execution, execution.policy)
        subjects = [self._target.delivery.pull_request_subject]
        role = self._role("preview", subjects, self._preview(patterns))
        return [execution, role]

    def _role(
        self, duty: DeliveryRole, subjects: Sequence[str], granted: Sequence[Grant], *, ref: str | None = None
    ) -> GrantedRole:
        name = naming.delivery_role_name(self._target.base, duty)
        role = GrantedRole(
            self,
            duty.capitalize(),
            trust=[github_trust(self._provider, subjects=subjects, ref=ref), *self._pipeline_trust(duty)],
            role_name=name,
            description=f"IAM role for jobs that {_DOES[duty]}",
            policy_name=duty,
            session_hours=_SESSION_HOURS[duty],
        )
        role.allow(granted)
        role.node.add_dependency(*self._first)
        cdk.CfnOutput(self, f"{duty.capitalize()}Role".replace("-", ""), value=role.arn)
        return role

    def _pipeline_trust(self, duty: DeliveryRole) -> list[Mapping[str, object]]:
        """Allow the pipeline's step roles to assume the duty roles."""
        pipeline = self._target.delivery.pipeline
        if pipeline is None or duty not in ("deploy", "promote", "clean-up"):
            return []
        spec = self._target.spec
        role = naming.pipeline_role_name(spec.name_prefix, naming.pipeline_duty(duty, spec.name))
        return [role_trust(partition=self._home.partition, account=pipeline.account, role=role)]

    def _plan(self) -> list[Grant]:
        aws, spec = self._home, self._target.spec
        patterns = self._names
        return [
            *grants.read_stacks(patterns),
            *grants.read_endpoints(patterns),
            *grants.ask_account(aws),
            *grants.read_artifacts(aws, spec),
        ]

    def _deploy(self) -> list[Grant]:
        aws, spec = self._home, self._target.spec
        patterns = self._names
        return [
            *self._plan(),
            *grants.write_artifacts(aws, spec, [naming.MODELS, naming.EVENTS, naming.MULTI_MODEL]),
            *grants.mark_artifacts(aws, spec),
            *grants.restore_artifacts(aws, spec),
            *grants.delete_replaced(patterns),
            *grants.switch_endpoints(patterns),
            *grants.delete_images(aws, spec),
            *grants.invoke_endpoints(patterns),
            *(grants.use_queues(aws, spec) if _has_queues(spec) else []),
            *grants.run_builds(aws, spec),
            *grants.assume_roles(grants.bootstrap_role_arns(aws, spec.bootstrap, *_DEPLOYING)),
        ]

    def _promote(self, source: EnvironmentSpec) -> list[Grant]:
        aws, spec = self._home, self._target.spec
        return [
            *grants.read_stacks(self._names),
            *grants.read_artifacts(aws, spec),
            *grants.write_artifacts(aws, spec, [naming.MODELS, naming.EVENTS]),
            *grants.mark_artifacts(aws, spec),
            *grants.explained(resuming_grants(aws, spec), "interrupted uploads"),
            push_images(aws, naming.image_repository_name(spec.base, "serving")),
            *self._read_source(source),
        ]

    def _read_source(self, source: EnvironmentSpec) -> list[Grant]:
        """Assume the source's reader role if it is in another account; its bucket allows no other access."""
        aws = self._home
        if source.account != aws.account:
            return grants.assume_roles([self._reader_arn(source)])
        target = AwsScope(aws.partition, source.region, source.account)
        return grants.explained(
            reading_grants(target, source, target.any_key),
            "everything to promote from there: artifacts and their events",
        )

    def _reader_arn(self, source: EnvironmentSpec) -> str:
        target = AwsScope(self._home.partition, source.region, source.account)
        return target.iam(f"role/{naming.promotion_role_name(source.delivery_base)}")

    def _clean_up(self) -> list[Grant]:
        granted = [*grants.read_stacks(self._names), *preview_grants.find_everything()]
        if self._target.preview is not None:
            patterns = self._named_previews(self._target.preview)
            granted += [
                *grants.read_stacks(patterns),
                *grants.read_endpoints(patterns),
                *preview_grants.delete_all(patterns, execution_role=self._execution_arn()),
            ]
        return granted

    def _preview(self, patterns: grants.NamePatterns) -> list[Grant]:
        aws, spec = self._home, self._target.spec
        return [
            *grants.read_stacks(patterns),
            *grants.read_endpoints(patterns),
            *grants.ask_account(aws),
            *preview_grants.change_stacks(patterns, execution_role=self._execution_arn()),
            *preview_grants.delete_all(patterns, execution_role=self._execution_arn()),
            *preview_grants.fill_buckets(patterns),
            *grants.invoke_endpoints(patterns),
            *preview_grants.find_everything(),
            *grants.read_artifacts(aws, spec),
            *grants.assume_roles(grants.bootstrap_role_arns(aws, patterns.bootstrap, *_PUBLISHING)),
        ]

    def _named_previews(self, sample: EnvironmentSpec) -> grants.NamePatterns:
        previews = self._target.delivery.previews
        prefix = previews.name_prefix if previews else ""
        return grants.NamePatterns.previews_like(self._home, sample, name_prefix=prefix)

    def _execution_arn(self) -> str:
        return self._home.iam(f"role/{naming.preview_execution_role_name(self._target.base)}")

    def _reader(self) -> None:
        """Create the reader role for environments of other accounts that promote from this one."""
        spec = self._target.spec
        accounts = {other.account for other in self._target.promoted_to} - {spec.account}
        if not accounts:
            return
        key = self._home.any_key
        reader = promotion_reader(self, "Promotion", environment=spec, key_arn=key, accounts=sorted(accounts))
        explain_pattern(reader, key, because="the condition next to it names this environment's buckets")
        skip_check(
            reader.node.find_child("Role"),
            "CKV_AWS_61",
            because="the other account's policies decide which of its roles may read what it promotes",
        )
        cdk.CfnOutput(self, "ReaderRole", value=reader.arn)

    def _edge(self) -> Bounds:
        aws, source = self._home, self._target.source
        roles = grants.bootstrap_role_arns(aws, self._target.spec.bootstrap, *_DEPLOYING)
        may_make: list[str] = []
        if self._target.preview is not None:
            previews = self._named_previews(self._target.preview)
            roles += grants.bootstrap_role_arns(aws, previews.bootstrap, *_PUBLISHING)
            may_make += [previews.roles, scaling_role_arn(aws)]
        regions = [aws.region]
        if source is not None:
            roles.append(self._reader_arn(source))
            regions += [source.region] if source.region != aws.region else []
        return Bounds(regions=regions, may_take_on=roles, may_make=may_make)


_DOES: Mapping[DeliveryRole, str] = {
    "plan": "read and compare without changes,",
    "deploy": "build, deploy and verify",
    "promote": "promote to this environment",
    "preview": "make and destroy previews",
    "clean-up": "find and destroy expired environments",
}


def _has_queues(spec: EnvironmentSpec) -> bool:
    return any(endpoint.asynchronous for endpoint in spec.endpoints.values())
