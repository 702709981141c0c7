"""What those who carry changes may do, as plain records: one function a thing that a command does.

The commands deploy through the roles that `cdk bootstrap` makes; what stands here beside that is what they
ask of AWS themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tritonstack.base import naming
from tritonstack.constructs.iam.grants import Grant, Home, read_objects, write_objects
from tritonstack.reference.bootstrap import Bootstrap, BootstrapRole
from tritonstack.spec.environments.environment import EnvironmentSpec

_LISTED = "what AWS lists belongs to no resource: IAM knows only *"
_KEY = "the key of these buckets, whose id only the foundation knows; the condition names the buckets"


@dataclass(frozen=True)
class Named:
    """All that is named like one environment, or like every one of those that come and go."""

    base: str
    """What the names begin with, before a hyphen or a slash: tritonstack-dev, tritonstack-pr-*."""
    buckets: str
    """Its buckets, as a pattern."""
    marks: Mapping[str, str]
    """The tags of all that is the environment's, as patterns."""
    bootstrap: Bootstrap
    """What the CDK deploys it with."""
    because: str

    @classmethod
    def like(cls, spec: EnvironmentSpec) -> Named:
        """All of one environment."""
        because = f"what is named like {spec.name}, and nothing else"
        return cls(spec.base, f"{spec.base}-*", spec.marks, spec.bootstrap, because)

    @classmethod
    def previews_like(cls, sample: EnvironmentSpec, *, name_prefix: str) -> Named:
        """All of every preview, `sample` being one of them."""
        base = naming.environment_prefix(prefix=sample.name_prefix, environment=f"{name_prefix}-*")
        marks = {key: text.replace(sample.name, f"{name_prefix}-*") for key, text in sample.marks.items()}
        because = "what is named like a preview: no other environment may be"
        return cls(base, base, marks, sample.bootstrap, because)

    def arns(self, home: Home, service: str, kind: str, *, after: str = "-*") -> list[str]:
        """Resources of a kind."""
        tail = "" if self.base.endswith("*") and after == "-*" else after
        return [home.arn(service, f"{kind}{self.base}{tail}")]

    def roles(self, home: Home) -> str:
        """Its roles: CloudFormation names them after their stacks."""
        return global_arn(home, f"role/{self.base}{'' if self.base.endswith('*') else '-*'}")


def global_arn(home: Home, resource: str) -> str:
    """Something of this account in IAM."""
    return f"arn:{home.partition}:iam::{home.account}:{resource}"


def bootstrap_role_arns(home: Home, bootstrap: Bootstrap, *kinds: BootstrapRole) -> list[str]:
    """Roles that `cdk bootstrap` makes."""
    return [global_arn(home, f"role/{bootstrap.role(kind)}") for kind in kinds]


def take_on(arns: Sequence[str]) -> list[Grant]:
    """Take on other roles."""
    return [Grant(["sts:AssumeRole"], arns)] if arns else []


def see_stacks(home: Home, named: Named) -> list[Grant]:
    """What CloudFormation and the CDK say of an environment's stacks."""
    return [
        Grant(["cloudformation:DescribeStacks"], ["*"], because=_LISTED),
        # Whether what is to be made is there already.
        Grant(
            ["ecr:DescribeRepositories", "kms:ListAliases", "logs:DescribeLogGroups", "s3:ListAllMyBuckets"],
            ["*"],
            because=_LISTED,
        ),
        Grant(
            [
                "cloudformation:DescribeStackEvents",
                "cloudformation:DescribeStackResources",
                "cloudformation:GetTemplate",
                "cloudformation:ListStackResources",
            ],
            named.arns(home, "cloudformation", "stack/"),
            because=named.because,
        ),
        Grant(
            ["ssm:GetParameter"],
            [
                home.arn("ssm", f"parameter{named.bootstrap.version_parameter}"),
                *named.arns(home, "ssm", "parameter/", after="/*"),
            ],
            because=named.because,
        ),
    ]


def see_endpoints(home: Home, named: Named) -> list[Grant]:
    """What runs: endpoints, what they are made of, how they scale, what rings."""
    return [
        Grant(
            ["sagemaker:DescribeEndpoint", "sagemaker:DescribeInferenceComponent", "sagemaker:ListTags"],
            [
                *named.arns(home, "sagemaker", "endpoint/"),
                *named.arns(home, "sagemaker", "inference-component/"),
            ],
            because=named.because,
        ),
        Grant(
            ["sagemaker:DescribeEndpointConfig", "sagemaker:DescribeModel"],
            [home.arn("sagemaker", "endpoint-config/*"), home.arn("sagemaker", "model/*")],
            because="CloudFormation names these after what they are in the template, not after their stack",
        ),
        Grant(
            [
                "application-autoscaling:DescribeScalableTargets",
                "application-autoscaling:DescribeScalingPolicies",
                "application-autoscaling:DescribeScheduledActions",
                "cloudwatch:DescribeAlarms",
                "cloudwatch:GetMetricData",
                "sagemaker:ListEndpoints",
                "sagemaker:ListInferenceComponents",
            ],
            ["*"],
            because=_LISTED,
        ),
        Grant(
            ["ecr:BatchGetImage", "ecr:DescribeImages"],
            named.arns(home, "ecr", "repository/", after="/*"),
            because=named.because,
        ),
    ]


def some_key(home: Home) -> str:
    """Any key of the account: the condition beside it says for which buckets' objects."""
    return home.arn("kms", "key/*")


def explained(grants: Sequence[Grant], because: str) -> list[Grant]:
    """The same grants, each pattern with its reason."""
    return [
        replace(grant, because=grant.because or (_KEY if "kms:" in grant.actions[0] else because))
        for grant in grants
    ]


def ask_queues(home: Home, spec: EnvironmentSpec) -> list[Grant]:
    """Put requests where asynchronous endpoints take them from, and read what came of them."""
    because = "requests and answers, which are named when they are written"
    data, key = spec.data_bucket, some_key(home)
    asked = write_objects(home, data, [naming.REQUESTS], key_arn=key, because=because)
    answered = [
        grant
        for prefix in (naming.ANSWERS, naming.FAILURES)
        for grant in read_objects(home, data, prefix, key_arn=key, because=because)
    ]
    return explained([*asked, *answered], because)


def ask_endpoints(home: Home, named: Named) -> list[Grant]:
    """Send endpoints requests, as `verify` does."""
    arns = [
        *named.arns(home, "sagemaker", "endpoint/"),
        *named.arns(home, "sagemaker", "inference-component/"),
    ]
    return [Grant(["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointAsync"], arns, because=named.because)]


def run_builds(home: Home, spec: EnvironmentSpec) -> list[Grant]:
    """Start the jobs that build models and images, follow them, and read what they say."""
    base = spec.base
    jobs = "the jobs of this environment's builds, each named after what it builds"
    return [
        Grant(
            [
                "codebuild:BatchGetBuilds",
                "codebuild:ListBuildsForProject",
                "codebuild:StartBuild",
                "codebuild:StopBuild",
            ],
            [home.arn("codebuild", f"project/{base}-build-*")],
            because=jobs,
        ),
        Grant(
            [
                "sagemaker:AddTags",
                "sagemaker:CreateProcessingJob",
                "sagemaker:DescribeProcessingJob",
                "sagemaker:StopProcessingJob",
            ],
            [home.arn("sagemaker", f"processing-job/{base}-build-*")],
            because=jobs,
        ),
        Grant(["sagemaker:ListProcessingJobs"], ["*"], because=_LISTED),
        Grant(
            ["iam:PassRole"],
            [global_arn(home, f"role/{naming.build_stack_name(base)}-*")],
            {"StringEquals": {"iam:PassedToService": ["codebuild.amazonaws.com", "sagemaker.amazonaws.com"]}},
            because="the roles that the build stack has made for its jobs",
        ),
        Grant(
            ["logs:DescribeLogStreams", "logs:GetLogEvents"],
            [
                home.arn("logs", f"log-group:{group}:*")
                for group in (naming.build_log_group(base), naming.PROCESSING_LOG_GROUP)
            ],
            because="the streams of the log groups of builds",
        ),
    ]
