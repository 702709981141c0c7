"""IAM grants of the delivery roles, as plain records: one function per task of a command.

The commands deploy through the roles that `cdk bootstrap` creates. These grants cover the other AWS calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.granted_role import ServiceRole
from tritonstack.constructs.iam.grants import AwsScope, Conditions, Grant, allow, read_objects, write_objects
from tritonstack.facts.bootstrap import Bootstrap, BootstrapRole
from tritonstack.facts.images import REPOSITORY, image_account
from tritonstack.files.environment.environment import EnvironmentSpec

_LISTED = "this action has no resource-level permissions"
_KEY = "the key of these buckets; only the foundation knows its id, so the condition names the buckets"
_VOLUME_KEY = "the key of the volumes; only the foundation knows its id, so the condition names its tags"
_NAMELESS = "CloudFormation names these after their logical ids, not after their stack"
ENDPOINTS = ("sagemaker:endpoint/{named}", "sagemaker:inference-component/{named}")


@dataclass(frozen=True)
class NamePatterns:
    """Name patterns of one environment's resources, or of all previews."""

    aws: AwsScope
    base: str
    """What the names begin with, before a hyphen or a slash: tritonstack-dev, tritonstack-pr-*."""
    buckets: str
    """The environment's buckets, as a pattern."""
    marks: Mapping[str, str]
    """The tags of the environment's resources, as patterns."""
    bootstrap: Bootstrap
    """The CDK bootstrap that deploys it."""
    because: str

    @classmethod
    def like(cls, aws: AwsScope, spec: EnvironmentSpec) -> NamePatterns:
        """Return the patterns of one environment."""
        because = f"only resources named like {spec.name}"
        return cls(aws, spec.base, f"{spec.base}-*", spec.marks, spec.bootstrap, because)

    @classmethod
    def previews_like(cls, aws: AwsScope, sample: EnvironmentSpec, *, name_prefix: str) -> NamePatterns:
        """Return the patterns of all previews; `sample` is one of them."""
        base = naming.environment_prefix(prefix=sample.name_prefix, environment=f"{name_prefix}-*")
        marks = {key: text.replace(sample.name, f"{name_prefix}-*") for key, text in sample.marks.items()}
        because = "only resources named like a preview; no other environment may have such a name"
        return cls(aws, base, base, marks, sample.bootstrap, because)

    @property
    def named(self) -> str:
        """What the whole names of resources match."""
        return self.base if self.base.endswith("*") else f"{self.base}-*"

    def arns(self, *resources: str) -> list[str]:
        """Return ARNs: `ecr:repository/{base}/*`, or with `{named}` for what is named with a hyphen."""
        return [
            self.aws.arn(service, name.format(base=self.base, named=self.named))
            for service, _, name in (resource.partition(":") for resource in resources)
        ]

    def allow(self, actions: str, *resources: str, where: Conditions | None = None) -> Grant:
        """Return a grant on resources of these names, which are written as for `arns`."""
        return allow(actions, *self.arns(*resources), where=where, because=self.because)

    @property
    def bucket(self) -> str:
        """The ARN of the environment's buckets."""
        return self.aws.bucket(self.buckets)

    @property
    def owned(self) -> dict[str, dict[str, str]]:
        """The condition that a resource has the environment's tags."""
        return {"StringLike": {f"aws:ResourceTag/{tag}": text for tag, text in self.marks.items()}}

    @property
    def roles(self) -> str:
        """The ARN of its roles, which CloudFormation names after their stacks."""
        return self.aws.iam(f"role/{self.named}")


def bootstrap_role_arns(aws: AwsScope, bootstrap: Bootstrap, *kinds: BootstrapRole) -> list[str]:
    """Return the ARNs of the roles that `cdk bootstrap` creates."""
    return [aws.iam(f"role/{bootstrap.role(kind)}") for kind in kinds]


def assume_roles(arns: Sequence[str]) -> list[Grant]:
    """Allow assuming other roles."""
    return [allow("sts: AssumeRole", *arns)] if arns else []


def read_stacks(patterns: NamePatterns) -> list[Grant]:
    """Allow reading an environment's stacks and CDK bootstrap."""
    version = f"ssm:parameter{patterns.bootstrap.version_parameter}"
    return [
        allow("cloudformation: DescribeStacks", "*", because=_LISTED),
        # Whether a resource already exists.
        allow(
            "ecr: DescribeRepositories; kms: ListAliases; logs: DescribeLogGroups; s3: ListAllMyBuckets",
            "*",
            because=_LISTED,
        ),
        patterns.allow(
            "cloudformation: DescribeStackEvents DescribeStackResources GetTemplate ListStackResources",
            "cloudformation:stack/{named}",
        ),
        patterns.allow("ssm: GetParameter", version, "ssm:parameter/{base}/*"),
    ]


def read_endpoints(patterns: NamePatterns) -> list[Grant]:
    """Allow reading endpoints, their models, scaling, and alarms."""
    aws = patterns.aws
    return [
        patterns.allow("sagemaker: DescribeEndpoint DescribeInferenceComponent ListTags", *ENDPOINTS),
        allow(
            "sagemaker: DescribeEndpointConfig DescribeModel",
            aws.arn("sagemaker", "endpoint-config/*"),
            aws.arn("sagemaker", "model/*"),
            because=_NAMELESS,
        ),
        allow(
            "application-autoscaling: DescribeScalableTargets DescribeScalingPolicies "
            "DescribeScheduledActions; cloudwatch: DescribeAlarms GetMetricData; "
            "sagemaker: ListEndpoints ListInferenceComponents",
            "*",
            because=_LISTED,
        ),
        patterns.allow("cloudwatch: DescribeAlarmHistory", "cloudwatch:alarm:{named}"),
        patterns.allow("ecr: BatchGetImage DescribeImages", "ecr:repository/{base}/*"),
    ]


def delete_replaced(patterns: NamePatterns) -> list[Grant]:
    """Allow finding and deleting the configurations and models that CloudFormation retained."""
    aws, words = patterns.aws, {"endpoint-config": "ServingConfig", "model": "Model"}
    return [
        allow(
            "sagemaker: DeleteEndpointConfig DeleteModel",
            # Whether CloudFormation puts the stack's name before the logical id is not documented, and ARNs
            # have names in lower case.
            *(
                aws.arn("sagemaker", f"{kind}/*{word}*")
                for kind, logical_id in words.items()
                for word in (logical_id, logical_id.lower())
            ),
            where=patterns.owned,
            because="CloudFormation names these after their logical ids; the condition names the tags",
        ),
        allow(
            "sagemaker: DescribeEndpoint DescribeInferenceComponent",
            aws.arn("sagemaker", "endpoint/*"),
            aws.arn("sagemaker", "inference-component/*"),
            because="an endpoint of any name may use what is to be deleted",
        ),
        allow("sagemaker: ListEndpointConfigs ListModels; tag: GetResources", "*", because=_LISTED),
    ]


def switch_endpoints(patterns: NamePatterns) -> list[Grant]:
    """Allow switching endpoints and components to what was retained, as `rollback --now` does."""
    aws, owned = patterns.aws, patterns.owned  # the names of dev also begin those of an environment dev-x
    endpoints, components = ENDPOINTS
    configs = ("sagemaker:endpoint-config/*ServingConfig*", "sagemaker:endpoint-config/*servingconfig*")
    because = "names begin with the environment's or a logical id; the condition names the tags"
    key = {**owned, "StringEquals": {"kms:ViaService": f"sagemaker.{aws.region}.amazonaws.com"}}
    for_aws = {**key, "Bool": {"kms:GrantIsForAWSResource": "true"}}
    return [
        # Both must be allowed: the endpoint and its configuration.
        allow("sagemaker: UpdateEndpoint", *patterns.arns(endpoints, *configs), where=owned, because=because),
        allow(
            "sagemaker: UpdateInferenceComponent", *patterns.arns(components), where=owned, because=because
        ),
        # SageMaker passes the key of the volumes on to new instances on behalf of who updates an endpoint.
        allow("kms: CreateGrant", aws.any_key, where=for_aws, because=_VOLUME_KEY),
        allow("kms: DescribeKey", aws.any_key, where=key, because=_VOLUME_KEY),
    ]


def delete_images(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow deleting superseded images of endpoints."""
    repository = naming.image_repository_name(spec.base, "serving")
    return [allow("ecr: BatchDeleteImage", aws.arn("ecr", f"repository/{repository}"))]


def ask_account(aws: AwsScope) -> list[Grant]:
    """Allow asking for AWS's images, the account's quotas, and zones, as `deploy` does at first."""
    images = f"arn:{aws.partition}:ecr:{aws.region}:{image_account(aws.region)}:repository/{REPOSITORY}"
    return [
        allow("ecr: BatchGetImage", images),
        allow(
            "ec2: DescribeAvailabilityZones DescribeInstanceTypeOfferings DescribeSubnets; "
            "servicequotas: ListAWSDefaultServiceQuotas ListServiceQuotas",
            "*",
            because=_LISTED,
        ),
    ]


def explained(grants: Sequence[Grant], because: str) -> list[Grant]:
    """Return the same grants, with a reason for each pattern."""
    return [
        replace(grant, because=grant.because or (_KEY if "kms:" in grant.actions[0] else because))
        for grant in grants
    ]


def use_queues(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow uploading asynchronous requests and reading their answers."""
    because = "requests and answers; their names are known only when they are written"
    data, key = spec.data_bucket, aws.any_key
    requests = write_objects(aws, data, [naming.REQUESTS], key_arn=key, because=because)
    answers = [
        grant
        for prefix in (naming.ANSWERS, naming.FAILURES)
        for grant in read_objects(aws, data, f"{prefix}*", key_arn=key, because=because)
    ]
    return explained([*requests, *answers], because)


def invoke_endpoints(patterns: NamePatterns) -> list[Grant]:
    """Allow invoking endpoints, as `verify` does."""
    # AWS lists InvokeEndpointWithResponseStream as an action of its own; its API reference names
    # InvokeEndpoint only.
    actions = "sagemaker: InvokeEndpoint InvokeEndpointAsync InvokeEndpointWithResponseStream"
    return [patterns.allow(actions, *ENDPOINTS)]


def run_builds(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow starting model and image builds, following them, and reading their logs."""
    base, jobs = spec.base, "build jobs of this environment, each named after what it builds"
    services = ["codebuild.amazonaws.com", "sagemaker.amazonaws.com"]
    groups = (naming.build_log_group(base), naming.PROCESSING_LOG_GROUP)
    return [
        allow(
            "codebuild: BatchGetBuilds ListBuildsForProject StartBuild StopBuild",
            aws.arn("codebuild", f"project/{base}-build-*"),
            because=jobs,
        ),
        allow(
            "sagemaker: AddTags CreateProcessingJob DescribeProcessingJob StopProcessingJob",
            aws.arn("sagemaker", f"processing-job/{base}-build-*"),
            because=jobs,
        ),
        allow("sagemaker: ListProcessingJobs", "*", because=_LISTED),
        allow(
            "iam: PassRole",
            aws.iam(f"role/{naming.build_stack_name(base)}-*"),
            where={"StringEquals": {"iam:PassedToService": services}},
            because="the roles that the build stack created for its jobs",
        ),
        allow(
            "logs: DescribeLogStreams GetLogEvents",
            *(aws.arn("logs", f"log-group:{group}:*") for group in groups),
            because="the log streams of the build log groups",
        ),
    ]


def read_artifacts(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow listing an environment's artifacts and reading their events."""
    because = f"all objects in the artifact bucket of {spec.name}"
    return explained(
        read_objects(aws, spec.artifact_bucket, "*", key_arn=aws.any_key, because=because), because
    )


def write_artifacts(aws: AwsScope, spec: EnvironmentSpec, prefixes: Sequence[str]) -> list[Grant]:
    """Allow writing to an environment's artifact bucket, without deleting."""
    because = f"artifacts and events of {spec.name}; their names are known only when they are written"
    return explained(
        write_objects(aws, spec.artifact_bucket, prefixes, key_arn=aws.any_key, because=because), because
    )


_EVERY_ARTIFACT = "artifacts of all models; they are named by digest"


def mark_artifacts(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow tagging artifacts that no recent lock names, and removing the tag."""
    models = f"{aws.bucket(spec.artifact_bucket)}/{naming.MODELS}*"
    actions = "s3: DeleteObjectTagging GetObjectTagging PutObjectTagging"
    return [allow(actions, models, because=_EVERY_ARTIFACT)]


def restore_artifacts(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow finding deleted artifacts and restoring them by copying the last version.

    Reading and tagging a version are separate actions. Removing the delete marker instead would need
    s3:DeleteObjectVersion, which can delete data permanently.
    """
    bucket, models = aws.bucket(spec.artifact_bucket), f"{naming.MODELS}*"
    actions = "s3: GetObjectVersion GetObjectVersionTagging PutObjectVersionTagging"
    return [
        allow("s3: ListBucketVersions", bucket, where={"StringLike": {"s3:prefix": models}}),
        allow(actions, f"{bucket}/{models}", because=_EVERY_ARTIFACT),
    ]


# Create the role that other accounts assume to read what they promote from an environment.
#
# The buckets deny all principals of other accounts. A principal that assumes this role belongs to the
# environment's own account, so the denial does not apply.


_EVERY_MODEL = "artifacts of all models; the caller names the model to promote"
_EVERY_EVENT = "promotion gates read all events of an artifact, and events are named by time"


def promotion_reader(
    scope: Construct,
    construct_id: str,
    *,
    environment: EnvironmentSpec,
    key_arn: str,
    accounts: Sequence[str],
) -> ServiceRole:
    """Create a read-only role for artifacts, events, and serving images.

    `accounts` are the accounts of the environments that promote from this one; their administrators choose
    which of their principals may assume the role.
    """
    scope = Construct(scope, construct_id)
    role = ServiceRole(
        scope,
        "Reader",
        assumed_by={},
        accounts=sorted(set(accounts)),
        role_name=naming.promotion_role_name(environment.delivery_base),
        description=f"IAM role for other accounts to read what they promote from {environment.name}",
        policy_name="read-what-is-promoted",
    )
    role.allow(reading_grants(AwsScope.of(scope), environment, key_arn))
    return role


def reading_grants(aws: AwsScope, environment: EnvironmentSpec, key_arn: str) -> list[Grant]:
    """Return what promotion from an environment needs to read; roles in its own account may get the same."""
    bucket = environment.artifact_bucket
    repository = naming.image_repository_name(environment.base, "serving")
    return [
        *read_objects(aws, bucket, f"{naming.MODELS}*", key_arn=key_arn, because=_EVERY_MODEL),
        *read_objects(aws, bucket, f"{naming.EVENTS}*", key_arn=key_arn, because=_EVERY_EVENT),
        allow(
            "ecr: BatchGetImage DescribeImages GetDownloadUrlForLayer",
            aws.arn("ecr", f"repository/{repository}"),
        ),
    ]


def resuming_grants(aws: AwsScope, environment: EnvironmentSpec) -> list[Grant]:
    """Return what resuming interrupted uploads into an environment needs, beside write access."""
    bucket = aws.bucket(environment.artifact_bucket)
    parts = f"{bucket}/{naming.MODELS}*"
    return [
        allow("s3: ListBucketMultipartUploads", bucket),
        allow("s3: ListMultipartUploadParts", parts, because=_EVERY_MODEL),
    ]
