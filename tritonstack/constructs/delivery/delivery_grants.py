"""IAM grants of the delivery roles, as plain records: one function per task of a command.

The commands deploy through the roles that `cdk bootstrap` creates. These grants cover the other AWS calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tritonstack.base import naming
from tritonstack.constructs.iam.grants import AwsScope, Grant, iam_actions, read_objects, write_objects
from tritonstack.reference.bootstrap import Bootstrap, BootstrapRole
from tritonstack.reference.images import REPOSITORY, image_account
from tritonstack.spec.environments.environment import EnvironmentSpec

_LISTED = "this action has no resource-level permissions"
_KEY = "the key of these buckets; only the foundation knows its id, so the condition names the buckets"
_VOLUME_KEY = "the key of the volumes; only the foundation knows its id, so the condition names its tags"


@dataclass(frozen=True)
class NamePatterns:
    """Name patterns of one environment's resources, or of all previews."""

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
    def like(cls, spec: EnvironmentSpec) -> NamePatterns:
        """Return the patterns of one environment."""
        because = f"only resources named like {spec.name}"
        return cls(spec.base, f"{spec.base}-*", spec.marks, spec.bootstrap, because)

    @classmethod
    def previews_like(cls, sample: EnvironmentSpec, *, name_prefix: str) -> NamePatterns:
        """Return the patterns of all previews; `sample` is one of them."""
        base = naming.environment_prefix(prefix=sample.name_prefix, environment=f"{name_prefix}-*")
        marks = {key: text.replace(sample.name, f"{name_prefix}-*") for key, text in sample.marks.items()}
        because = "only resources named like a preview; no other environment may have such a name"
        return cls(base, base, marks, sample.bootstrap, because)

    def arns(self, aws: AwsScope, service: str, kind: str, *, after: str = "-*") -> list[str]:
        """Return the ARNs of a type of resource."""
        tail = "" if self.base.endswith("*") and after == "-*" else after
        return [aws.arn(service, f"{kind}{self.base}{tail}")]

    @property
    def owned(self) -> dict[str, dict[str, str]]:
        """The condition that a resource has the environment's tags."""
        return {"StringLike": {f"aws:ResourceTag/{tag}": text for tag, text in self.marks.items()}}

    def roles(self, aws: AwsScope) -> str:
        """Return the ARNs of its roles, which CloudFormation names after their stacks."""
        return global_arn(aws, f"role/{self.base}{'' if self.base.endswith('*') else '-*'}")


def global_arn(aws: AwsScope, resource: str) -> str:
    """Return an IAM ARN in this account."""
    return f"arn:{aws.partition}:iam::{aws.account}:{resource}"


def bootstrap_role_arns(aws: AwsScope, bootstrap: Bootstrap, *kinds: BootstrapRole) -> list[str]:
    """Return the ARNs of the roles that `cdk bootstrap` creates."""
    return [global_arn(aws, f"role/{bootstrap.role(kind)}") for kind in kinds]


def assume_roles(arns: Sequence[str]) -> list[Grant]:
    """Allow assuming other roles."""
    return [Grant(["sts:AssumeRole"], arns)] if arns else []


def read_stacks(aws: AwsScope, patterns: NamePatterns) -> list[Grant]:
    """Allow reading an environment's stacks and CDK bootstrap."""
    return [
        Grant(["cloudformation:DescribeStacks"], ["*"], because=_LISTED),
        # Whether a resource already exists.
        Grant(
            ["ecr:DescribeRepositories", "kms:ListAliases", "logs:DescribeLogGroups", "s3:ListAllMyBuckets"],
            ["*"],
            because=_LISTED,
        ),
        Grant(
            iam_actions(
                "cloudformation: DescribeStackEvents DescribeStackResources GetTemplate ListStackResources"
            ),
            patterns.arns(aws, "cloudformation", "stack/"),
            because=patterns.because,
        ),
        Grant(
            ["ssm:GetParameter"],
            [
                aws.arn("ssm", f"parameter{patterns.bootstrap.version_parameter}"),
                *patterns.arns(aws, "ssm", "parameter/", after="/*"),
            ],
            because=patterns.because,
        ),
    ]


def read_endpoints(aws: AwsScope, patterns: NamePatterns) -> list[Grant]:
    """Allow reading endpoints, their models, scaling, and alarms."""
    return [
        Grant(
            ["sagemaker:DescribeEndpoint", "sagemaker:DescribeInferenceComponent", "sagemaker:ListTags"],
            [
                *patterns.arns(aws, "sagemaker", "endpoint/"),
                *patterns.arns(aws, "sagemaker", "inference-component/"),
            ],
            because=patterns.because,
        ),
        Grant(
            ["sagemaker:DescribeEndpointConfig", "sagemaker:DescribeModel"],
            [aws.arn("sagemaker", "endpoint-config/*"), aws.arn("sagemaker", "model/*")],
            because="CloudFormation names these after their logical ids, not after their stack",
        ),
        Grant(
            iam_actions(
                "application-autoscaling: DescribeScalableTargets DescribeScalingPolicies "
                "DescribeScheduledActions",
                "cloudwatch: DescribeAlarms GetMetricData",
                "sagemaker: ListEndpoints ListInferenceComponents",
            ),
            ["*"],
            because=_LISTED,
        ),
        Grant(
            ["cloudwatch:DescribeAlarmHistory"],
            patterns.arns(aws, "cloudwatch", "alarm:"),
            because=patterns.because,
        ),
        Grant(
            ["ecr:BatchGetImage", "ecr:DescribeImages"],
            patterns.arns(aws, "ecr", "repository/", after="/*"),
            because=patterns.because,
        ),
    ]


def delete_replaced(aws: AwsScope, patterns: NamePatterns) -> list[Grant]:
    """Allow finding and deleting the configurations and models that CloudFormation retained."""
    words = {"endpoint-config": "ServingConfig", "model": "Model"}
    return [
        Grant(
            ["sagemaker:DeleteEndpointConfig", "sagemaker:DeleteModel"],
            # Whether CloudFormation puts the stack's name before the logical id is not documented, and ARNs
            # have names in lower case.
            [
                aws.arn("sagemaker", f"{kind}/*{word}*")
                for kind, logical_id in words.items()
                for word in (logical_id, logical_id.lower())
            ],
            patterns.owned,
            because="CloudFormation names these after their logical ids; the condition names the tags",
        ),
        Grant(
            ["sagemaker:DescribeEndpoint", "sagemaker:DescribeInferenceComponent"],
            [aws.arn("sagemaker", "endpoint/*"), aws.arn("sagemaker", "inference-component/*")],
            because="an endpoint of any name may use what is to be deleted",
        ),
        Grant(
            ["sagemaker:ListEndpointConfigs", "sagemaker:ListModels", "tag:GetResources"],
            ["*"],
            because=_LISTED,
        ),
    ]


def switch_endpoints(aws: AwsScope, patterns: NamePatterns) -> list[Grant]:
    """Allow switching endpoints and components to what was retained, as `rollback --now` does."""
    configs = [
        aws.arn("sagemaker", f"endpoint-config/*{word}*") for word in ("ServingConfig", "servingconfig")
    ]
    # The names of dev also begin those of an environment dev-x.
    owned = patterns.owned
    because = "names begin with the environment's or a logical id; the condition names the tags"
    through = {"kms:ViaService": f"sagemaker.{aws.region}.amazonaws.com"}
    return [
        Grant(
            ["sagemaker:UpdateEndpoint"],
            # Both must be allowed: the endpoint and its configuration.
            [*patterns.arns(aws, "sagemaker", "endpoint/"), *configs],
            owned,
            because=because,
        ),
        Grant(
            ["sagemaker:UpdateInferenceComponent"],
            patterns.arns(aws, "sagemaker", "inference-component/"),
            owned,
            because=because,
        ),
        # SageMaker passes the key of the volumes on to new instances on behalf of who updates an endpoint.
        Grant(
            ["kms:CreateGrant"],
            [any_key(aws)],
            {**owned, "StringEquals": through, "Bool": {"kms:GrantIsForAWSResource": "true"}},
            because=_VOLUME_KEY,
        ),
        Grant(["kms:DescribeKey"], [any_key(aws)], {**owned, "StringEquals": through}, because=_VOLUME_KEY),
    ]


def delete_images(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow deleting superseded images of endpoints."""
    repository = naming.image_repository_name(spec.base, "serving")
    return [Grant(["ecr:BatchDeleteImage"], [aws.arn("ecr", f"repository/{repository}")])]


def ask_account(aws: AwsScope) -> list[Grant]:
    """Allow asking for AWS's images, the account's quotas, and zones, as `deploy` does at first."""
    images = f"arn:{aws.partition}:ecr:{aws.region}:{image_account(aws.region)}:repository/{REPOSITORY}"
    return [
        Grant(["ecr:BatchGetImage"], [images]),
        Grant(
            iam_actions(
                "ec2: DescribeAvailabilityZones DescribeInstanceTypeOfferings DescribeSubnets",
                "servicequotas: ListAWSDefaultServiceQuotas ListServiceQuotas",
            ),
            ["*"],
            because=_LISTED,
        ),
    ]


def any_key(aws: AwsScope) -> str:
    """Return the ARN of any key in the account; the condition next to it limits it to one bucket's
    objects."""
    return aws.arn("kms", "key/*")


def explained(grants: Sequence[Grant], because: str) -> list[Grant]:
    """Return the same grants, with a reason for each pattern."""
    return [
        replace(grant, because=grant.because or (_KEY if "kms:" in grant.actions[0] else because))
        for grant in grants
    ]


def use_queues(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow uploading asynchronous requests and reading their answers."""
    because = "requests and answers; their names are known only when they are written"
    data, key = spec.data_bucket, any_key(aws)
    requests = write_objects(aws, data, [naming.REQUESTS], key_arn=key, because=because)
    answers = [
        grant
        for prefix in (naming.ANSWERS, naming.FAILURES)
        for grant in read_objects(aws, data, prefix, key_arn=key, because=because)
    ]
    return explained([*requests, *answers], because)


def invoke_endpoints(aws: AwsScope, patterns: NamePatterns) -> list[Grant]:
    """Allow invoking endpoints, as `verify` does."""
    arns = [
        *patterns.arns(aws, "sagemaker", "endpoint/"),
        *patterns.arns(aws, "sagemaker", "inference-component/"),
    ]
    # AWS lists InvokeEndpointWithResponseStream as an action of its own; its API reference names
    # InvokeEndpoint only.
    actions = iam_actions("sagemaker: InvokeEndpoint InvokeEndpointAsync InvokeEndpointWithResponseStream")
    return [Grant(actions, arns, because=patterns.because)]


def run_builds(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow starting model and image builds, following them, and reading their logs."""
    base = spec.base
    jobs = "build jobs of this environment, each named after what it builds"
    return [
        Grant(
            iam_actions("codebuild: BatchGetBuilds ListBuildsForProject StartBuild StopBuild"),
            [aws.arn("codebuild", f"project/{base}-build-*")],
            because=jobs,
        ),
        Grant(
            iam_actions("sagemaker: AddTags CreateProcessingJob DescribeProcessingJob StopProcessingJob"),
            [aws.arn("sagemaker", f"processing-job/{base}-build-*")],
            because=jobs,
        ),
        Grant(["sagemaker:ListProcessingJobs"], ["*"], because=_LISTED),
        Grant(
            ["iam:PassRole"],
            [global_arn(aws, f"role/{naming.build_stack_name(base)}-*")],
            {"StringEquals": {"iam:PassedToService": ["codebuild.amazonaws.com", "sagemaker.amazonaws.com"]}},
            because="the roles that the build stack created for its jobs",
        ),
        Grant(
            ["logs:DescribeLogStreams", "logs:GetLogEvents"],
            [
                aws.arn("logs", f"log-group:{group}:*")
                for group in (naming.build_log_group(base), naming.PROCESSING_LOG_GROUP)
            ],
            because="the log streams of the build log groups",
        ),
    ]
