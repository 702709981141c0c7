"""IAM grants for creating, finding, and destroying previews, as plain records."""

from __future__ import annotations

from tritonstack.base import naming
from tritonstack.constructs.delivery.delivery_grants import NamePatterns, delete_replaced, explained
from tritonstack.constructs.iam.grants import Grant, allow, use_key_through_s3


def change_stacks(patterns: NamePatterns, *, execution_role: str) -> list[Grant]:
    """Allow creating, changing, and deleting stacks of these names, through one execution role.

    They cannot import existing resources, because destroying the stack could delete them.
    """
    stacks = "cloudformation:stack/{named}"
    imports_nothing = {"Null": {"cloudformation:ImportResourceTypes": "true"}}
    return [
        patterns.allow("cloudformation: CreateChangeSet", stacks, where=imports_nothing),
        patterns.allow(
            "cloudformation: ContinueUpdateRollback CreateStack DeleteChangeSet DescribeChangeSet "
            "ExecuteChangeSet RollbackStack TagResource UpdateStack UpdateTerminationProtection",
            stacks,
        ),
        _pass_to_cloudformation(execution_role),
    ]


def fill_buckets(patterns: NamePatterns) -> list[Grant]:
    """Allow reading and writing objects in the buckets of previews."""
    aws, objects, because = patterns.aws, f"{patterns.bucket}/*", patterns.because
    key = use_key_through_s3(
        aws, ["kms:Decrypt", "kms:GenerateDataKey"], aws.any_key, [patterns.bucket, objects]
    )
    return [allow("s3: GetObject PutObject", objects, because=because), *explained(key, because)]


def delete_all(patterns: NamePatterns, *, execution_role: str) -> list[Grant]:
    """Allow destroying environments completely: builds, stacks, bucket contents, and resources that AWS
    created."""
    bucket, base, because = patterns.bucket, patterns.base, patterns.because
    groups = (
        naming.endpoint_log_group(base),
        naming.component_log_group(base),
        naming.codebuild_log_group(base),
        f"/{base}",
    )
    return [
        patterns.allow("cloudformation: DeleteStack DescribeChangeSet", "cloudformation:stack/{named}"),
        _pass_to_cloudformation(execution_role),
        allow(
            "s3: DeleteBucket GetBucketLocation ListBucket ListBucketMultipartUploads ListBucketVersions "
            "PutBucketLogging",
            bucket,
            because=because,
        ),
        allow("s3: AbortMultipartUpload DeleteObject DeleteObjectVersion", f"{bucket}/*", because=because),
        patterns.allow("logs: DeleteLogGroup", *(f"logs:log-group:{group}*" for group in groups)),
        patterns.allow("ecr: BatchDeleteImage", "ecr:repository/{base}/*"),
        patterns.allow(
            "codebuild: BatchGetBuilds ListBuildsForProject StopBuild", "codebuild:project/{base}-build-*"
        ),
        patterns.allow(
            "sagemaker: DeleteProcessingJob StopProcessingJob", "sagemaker:processing-job/{base}-build-*"
        ),
        *delete_replaced(patterns),
    ]


def find_everything() -> list[Grant]:
    """Allow searching all services that an environment uses for remaining resources."""
    return [
        allow(
            "application-autoscaling: DescribeScalableTargets DescribeScalingPolicies "
            "DescribeScheduledActions; "
            "cloudformation: DescribeStacks ListStacks; "
            "cloudwatch: DescribeAlarms ListDashboards; "
            "codebuild: ListProjects; "
            "codepipeline: ListPipelines; "
            "ec2: DescribeFlowLogs DescribeImages DescribeNetworkAcls DescribeNetworkInterfaces "
            "DescribeRouteTables DescribeSecurityGroups DescribeSnapshots DescribeSubnets "
            "DescribeVpcEndpoints DescribeVpcs; "
            "ecr: DescribeRepositories ListImages; "
            "events: ListRules; "
            "iam: ListOpenIDConnectProviderTags ListOpenIDConnectProviders ListPolicies "
            "ListPolicyTags ListRoleTags ListRoles; "
            "kms: DescribeKey ListAliases ListKeys ListResourceTags; "
            "logs: DescribeLogGroups ListTagsForResource; "
            "s3: ListAllMyBuckets; "
            "sagemaker: ListEndpointConfigs ListEndpoints ListInferenceComponents ListModels "
            "ListProcessingJobs ListTags; "
            "sns: ListSubscriptions ListTopics; "
            "ssm: DescribeParameters; "
            "tag: GetResources",
            "*",
            because="an audit searches for unknown resources, so no name can be given",
        )
    ]


def _pass_to_cloudformation(role: str) -> Grant:
    service = {"StringEquals": {"iam:PassedToService": "cloudformation.amazonaws.com"}}
    return allow("iam: PassRole", role, where=service)
