"""IAM grants for creating, finding, and destroying previews, as plain records."""

from __future__ import annotations

from tritonstack.base import naming
from tritonstack.constructs.delivery.delivery_grants import NamePatterns, any_key, delete_replaced, explained
from tritonstack.constructs.iam.grants import AwsScope, Grant, iam_actions, use_key_through_s3


def change_stacks(aws: AwsScope, patterns: NamePatterns, *, execution_role: str) -> list[Grant]:
    """Allow creating, changing, and deleting stacks of these names, through one execution role.

    They cannot import existing resources, because destroying the stack could delete them.
    """
    stacks = patterns.arns(aws, "cloudformation", "stack/")
    return [
        Grant(
            ["cloudformation:CreateChangeSet"],
            stacks,
            {"Null": {"cloudformation:ImportResourceTypes": "true"}},
            because=patterns.because,
        ),
        Grant(
            iam_actions(
                "cloudformation: ContinueUpdateRollback CreateStack DeleteChangeSet DescribeChangeSet "
                "ExecuteChangeSet RollbackStack TagResource UpdateStack UpdateTerminationProtection"
            ),
            stacks,
            because=patterns.because,
        ),
        _pass_to_cloudformation(execution_role),
    ]


def fill_buckets(aws: AwsScope, patterns: NamePatterns) -> list[Grant]:
    """Allow reading and writing objects in the buckets of previews."""
    bucket = aws.bucket(patterns.buckets)
    actions = ["s3:GetObject", "s3:PutObject"]
    contexts = [bucket, f"{bucket}/*"]
    return [
        Grant(actions, [f"{bucket}/*"], because=patterns.because),
        *explained(
            use_key_through_s3(aws, ["kms:Decrypt", "kms:GenerateDataKey"], any_key(aws), contexts),
            patterns.because,
        ),
    ]


def delete_all(aws: AwsScope, patterns: NamePatterns, *, execution_role: str) -> list[Grant]:
    """Allow destroying environments completely: builds, stacks, bucket contents, and resources that AWS
    created."""
    bucket = aws.bucket(patterns.buckets)
    return [
        Grant(
            ["cloudformation:DeleteStack", "cloudformation:DescribeChangeSet"],
            patterns.arns(aws, "cloudformation", "stack/"),
            because=patterns.because,
        ),
        _pass_to_cloudformation(execution_role),
        Grant(
            iam_actions(
                "s3: DeleteBucket GetBucketLocation ListBucket ListBucketMultipartUploads "
                "ListBucketVersions PutBucketLogging"
            ),
            [bucket],
            because=patterns.because,
        ),
        Grant(
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectVersion"],
            [f"{bucket}/*"],
            because=patterns.because,
        ),
        Grant(
            ["logs:DeleteLogGroup"],
            [
                aws.arn("logs", f"log-group:{group}*")
                for group in (
                    naming.endpoint_log_group(patterns.base),
                    naming.component_log_group(patterns.base),
                    naming.codebuild_log_group(patterns.base),
                    f"/{patterns.base}",
                )
            ],
            because=patterns.because,
        ),
        Grant(
            ["ecr:BatchDeleteImage"],
            patterns.arns(aws, "ecr", "repository/", after="/*"),
            because=patterns.because,
        ),
        Grant(
            ["codebuild:BatchGetBuilds", "codebuild:ListBuildsForProject", "codebuild:StopBuild"],
            patterns.arns(aws, "codebuild", "project/", after="-build-*"),
            because=patterns.because,
        ),
        Grant(
            ["sagemaker:DeleteProcessingJob", "sagemaker:StopProcessingJob"],
            patterns.arns(aws, "sagemaker", "processing-job/", after="-build-*"),
            because=patterns.because,
        ),
        *delete_replaced(aws, patterns),
    ]


def find_everything() -> list[Grant]:
    """Allow searching all services that an environment uses for remaining resources."""
    return [
        Grant(
            iam_actions(
                "application-autoscaling: DescribeScalableTargets DescribeScalingPolicies "
                "DescribeScheduledActions",
                "cloudformation: DescribeStacks ListStacks",
                "cloudwatch: DescribeAlarms ListDashboards",
                "codebuild: ListProjects",
                "codepipeline: ListPipelines",
                "ec2: DescribeFlowLogs DescribeImages DescribeNetworkAcls DescribeNetworkInterfaces "
                "DescribeRouteTables DescribeSecurityGroups DescribeSnapshots DescribeSubnets "
                "DescribeVpcEndpoints DescribeVpcs",
                "ecr: DescribeRepositories ListImages",
                "events: ListRules",
                "iam: ListOpenIDConnectProviderTags ListOpenIDConnectProviders ListPolicies "
                "ListPolicyTags ListRoleTags ListRoles",
                "kms: DescribeKey ListAliases ListKeys ListResourceTags",
                "logs: DescribeLogGroups ListTagsForResource",
                "s3: ListAllMyBuckets",
                "sagemaker: ListEndpointConfigs ListEndpoints ListInferenceComponents ListModels "
                "ListProcessingJobs ListTags",
                "sns: ListSubscriptions ListTopics",
                "ssm: DescribeParameters",
                "tag: GetResources",
            ),
            ["*"],
            because="an audit searches for unknown resources, so no name can be given",
        )
    ]


def _pass_to_cloudformation(role: str) -> Grant:
    service = {"StringEquals": {"iam:PassedToService": "cloudformation.amazonaws.com"}}
    return Grant(["iam:PassRole"], [role], service)
