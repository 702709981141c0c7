"""What each delivery role can do in its environment."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.delivery.delivery_project import REGION
from tests.delivery.permissions.iam import listed, may
from tests.delivery.permissions.resources import (
    CDK,
    DEV_BUCKET,
    EXECUTION,
    FILES,
    KEY,
    LOOKUP,
    PREVIEW_ASSETS,
    PREVIEW_BUCKET,
    PREVIEW_FILES,
    SCALING_ROLE,
    STAGING_BUCKET,
    arn,
    iam_role,
)
from tests.sample_templates import delivery_templates, sample_templates

TRITON_IMAGES = arn("ecr", "repository/sagemaker-tritonserver", account="763104351884")


def stack(name):
    return arn("cloudformation", f"stack/tritonstack-{name}/1")


def endpoint(name):
    return arn("sagemaker", f"endpoint/tritonstack-{name}")


@pytest.mark.parametrize(
    ("duty", "action", "resource", "allowed"),
    [
        # Plan looks at everything of its environment and changes nothing.
        ("plan", "cloudformation:GetTemplate", stack("dev-build"), True),
        ("plan", "sagemaker:DescribeEndpoint", endpoint("dev-search"), True),
        ("plan", "s3:GetObject", f"{DEV_BUCKET}/events/1.json", True),
        (
            "plan",
            "cloudwatch:DescribeAlarmHistory",
            arn("cloudwatch", "alarm:tritonstack-dev-search-x"),
            True,
        ),
        ("plan", "cloudwatch:DescribeAlarmHistory", arn("cloudwatch", "alarm:tritonstack-prod-x"), False),
        ("plan", "sts:AssumeRole", LOOKUP, False),  # which reads the whole account
        ("plan", "s3:GetObject", f"{STAGING_BUCKET}/events/1.json", False),
        ("plan", "s3:PutObject", f"{DEV_BUCKET}/events/1.json", False),
        ("plan", "sagemaker:InvokeEndpoint", endpoint("dev-search"), False),
        ("plan", "sts:AssumeRole", CDK, False),
        # Deploy goes through the CDK's roles, publishes, builds, and asks endpoints.
        ("deploy", "sts:AssumeRole", CDK, True),
        ("deploy", "sts:AssumeRole", FILES, True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/endpoints/x/model.tar.gz", True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/events/1.json", True),
        ("deploy", "sagemaker:InvokeEndpoint", endpoint("dev-search"), True),
        ("deploy", "sagemaker:InvokeEndpointWithResponseStream", endpoint("dev-counting"), True),
        # Before anything is created, it asks for AWS's images, quotas, and zones.
        *(
            (duty, action, "*", True)
            for duty in ("plan", "deploy", "preview")
            for action in (
                "ec2:DescribeAvailabilityZones",
                "ec2:DescribeInstanceTypeOfferings",
                "ec2:DescribeSubnets",
                "servicequotas:ListAWSDefaultServiceQuotas",
                "servicequotas:ListServiceQuotas",
            )
        ),
        ("deploy", "ecr:BatchGetImage", TRITON_IMAGES, True),
        ("deploy", "ecr:BatchGetImage", TRITON_IMAGES.replace("triton", "other"), False),
        ("deploy", "servicequotas:RequestServiceQuotaIncrease", "*", False),
        ("deploy", "codebuild:StartBuild", arn("codebuild", "project/tritonstack-dev-build-cpu"), True),
        ("deploy", "s3:DeleteObject", f"{DEV_BUCKET}/events/1.json", False),
        ("deploy", "s3:PutObject", f"{STAGING_BUCKET}/events/1.json", False),
        ("deploy", "sagemaker:InvokeEndpoint", endpoint("staging-a"), False),
        ("deploy", "sts:AssumeRole", EXECUTION, False),
        ("deploy", "sts:AssumeRole", iam_role("Admin"), False),
        ("deploy", "iam:PutRolePolicy", iam_role("tritonstack-delivery-dev-deploy"), False),
        ("deploy", "cloudformation:DeleteStack", stack("dev-build"), False),
        # Previews: theirs alone.
        ("preview", "cloudformation:CreateChangeSet", stack("pr-7-a"), True),
        ("preview", "cloudformation:DeleteStack", stack("pr-7-a"), True),
        ("preview", "s3:DeleteObjectVersion", f"{PREVIEW_BUCKET}/models/x", True),
        ("preview", "s3:PutObject", f"{PREVIEW_BUCKET}/models/x", True),
        ("preview", "s3:GetObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("preview", "sagemaker:InvokeEndpoint", endpoint("pr-7-search"), True),
        ("preview", "cloudformation:CreateChangeSet", stack("dev-a"), False),
        ("preview", "cloudformation:DeleteStack", stack("dev-a"), False),
        ("preview", "cloudformation:UpdateStack", stack("delivery-dev"), False),
        ("preview", "s3:DeleteObject", f"{DEV_BUCKET}/models/x", False),
        ("preview", "s3:PutObject", f"{DEV_BUCKET}/models/x", False),
        ("preview", "sts:AssumeRole", CDK, False),
        # What a pull request publishes, no deploy of dev takes up.
        ("preview", "sts:AssumeRole", PREVIEW_FILES, True),
        ("preview", "sts:AssumeRole", FILES, False),
        ("preview-execution", "s3:GetObject", f"{PREVIEW_ASSETS}/0a.json", True),
        ("deploy", "sts:AssumeRole", PREVIEW_FILES, False),
        # What CloudFormation makes previews with.
        ("preview-execution", "sagemaker:CreateEndpoint", endpoint("pr-7-x"), True),
        ("preview-execution", "sagemaker:UpdateEndpoint", endpoint("dev-x"), False),
        ("preview-execution", "sagemaker:DeleteEndpoint", endpoint("dev-x"), False),
        ("preview-execution", "sagemaker:DeleteTags", arn("sagemaker", "model/Search-0a1b"), True),
        # Application Auto Scaling names its alarms itself, and checks the policy creator's permissions.
        ("preview-execution", "cloudwatch:GetMetricData", "*", True),
        (
            "preview-execution",
            "cloudwatch:PutMetricAlarm",
            arn("cloudwatch", "alarm:TargetTracking-endpoint/tritonstack-pr-7-x/variant/main-AlarmHigh-1"),
            True,
        ),
        (
            "preview-execution",
            "cloudwatch:PutMetricAlarm",
            arn("cloudwatch", "alarm:tritonstack-dev-x"),
            False,
        ),
        # Nor are there subscriptions by name.
        ("preview-execution", "sns:Unsubscribe", "*", True),
        ("preview-execution", "iam:CreateServiceLinkedRole", SCALING_ROLE, True),
        ("preview-execution", "iam:CreateServiceLinkedRole", iam_role("aws-service-role/x/y"), False),
        ("preview-execution", "iam:PutRolePolicy", iam_role("tritonstack-delivery-dev-deploy"), False),
        ("preview-execution", "iam:PassRole", iam_role("Admin"), False),
        # Clean-up finds everything, and deletes previews.
        ("clean-up", "tag:GetResources", "*", True),
        *(
            ("clean-up", action, "*", True)
            for action in (
                "codepipeline:ListPipelines",
                "ec2:DescribeImages",
                "ec2:DescribeNetworkAcls",
                "ec2:DescribeSnapshots",
            )
        ),
        ("clean-up", "cloudformation:DeleteStack", stack("pr-7-a"), True),
        ("clean-up", "cloudformation:DeleteStack", stack("dev-a"), False),
        ("clean-up", "cloudformation:CreateChangeSet", stack("pr-7-a"), False),
        ("clean-up", "s3:GetObject", f"{DEV_BUCKET}/models/x", False),
        # It ends builds first, and starts none.
        ("clean-up", "codebuild:StopBuild", arn("codebuild", "project/tritonstack-pr-7-build-cpu"), True),
        ("clean-up", "codebuild:StartBuild", arn("codebuild", "project/tritonstack-pr-7-build-cpu"), False),
        ("clean-up", "codebuild:StopBuild", arn("codebuild", "project/tritonstack-dev-build-cpu"), False),
        (
            "clean-up",
            "sagemaker:StopProcessingJob",
            arn("sagemaker", "processing-job/tritonstack-pr-7-build-a1-1"),
            True,
        ),
        *(
            (
                duty,
                "sagemaker:DeleteProcessingJob",
                arn("sagemaker", f"processing-job/tritonstack-{name}-build-a1-1"),
                allowed,
            )
            for duty, name, allowed in (
                ("clean-up", "pr-7", True),
                ("preview", "pr-7", True),
                ("clean-up", "dev", False),
                ("preview", "dev", False),
                ("deploy", "dev", False),
            )
        ),
    ],
)
def test_delivery_role_permissions_in_dev(delivery_stacks, duty, action, resource, allowed):
    assert (
        may(delivery_stacks["dev"], f"tritonstack-delivery-dev-{duty}", action, resource, s3__prefix="")
        is allowed
    )


def test_no_statement_allows_invocations_without_streamed_ones_or_the_reverse():
    """IAM counts a streamed invocation as another action; whoever may do the one needs the other."""
    pair = ("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream")
    covered = [
        [any(fnmatchcase(action, pattern) for pattern in listed(statement["Action"])) for action in pair]
        for template in (*sample_templates().values(), *delivery_templates().values())
        for statement in statements_of(template)
        if "Action" in statement
    ]
    assert any(both == [True, True] for both in covered)
    assert [both for both in covered if both[0] != both[1]] == []


def statements_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the statements of every policy in a template, inline or not."""
    if isinstance(value, dict) and "Effect" in value:
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from statements_of(part)


ARTIFACT = f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz"


BRINGS_BACK = (
    ("s3:ListBucketVersions", DEV_BUCKET),
    ("s3:GetObjectVersion", ARTIFACT),
    ("s3:GetObjectVersionTagging", ARTIFACT),
    ("s3:PutObject", ARTIFACT),
    ("s3:PutObjectTagging", ARTIFACT),
    ("s3:PutObjectVersionTagging", ARTIFACT),
)


@pytest.mark.parametrize(("action", "resource"), BRINGS_BACK)
@pytest.mark.parametrize("duty", ["deploy", "plan", "promote"])
def test_a_rollback_can_restore_deleted_artifacts(delivery_stacks, duty, action, resource):
    """By copying the version below the delete marker over itself; only the deploy role can."""
    role = f"tritonstack-delivery-staging-{duty}"
    permitted = may(
        delivery_stacks["staging"],
        role,
        action,
        resource.replace("-dev-", "-staging-"),
        s3__prefix="models/x/ab/",
    )
    others = ("s3:PutObject", "s3:PutObjectTagging") if duty == "promote" else ()
    assert permitted is (duty == "deploy" or action in others)


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("s3:DeleteObject", ARTIFACT),
        ("s3:DeleteObjectVersion", ARTIFACT),
        ("s3:GetObjectVersion", f"{DEV_BUCKET}/events/1.json"),
        ("s3:GetObjectVersion", ARTIFACT.replace("-dev-", "-staging-")),
        ("s3:PutObjectVersionTagging", f"{DEV_BUCKET}/endpoints/x/model.tar.gz"),
    ],
)
def test_rollback_deletes_nothing_and_reads_only_its_own_history(delivery_stacks, action, resource):
    assert not may(delivery_stacks["dev"], "tritonstack-delivery-dev-deploy", action, resource)


def test_only_versions_of_models_are_listed(delivery_stacks):
    role, action = "tritonstack-delivery-dev-deploy", "s3:ListBucketVersions"
    assert not may(delivery_stacks["dev"], role, action, DEV_BUCKET, s3__prefix="")
    assert not may(delivery_stacks["dev"], role, action, DEV_BUCKET)


@pytest.mark.parametrize("key", [DEV_BUCKET, ARTIFACT])
@pytest.mark.parametrize("action", ["kms:Decrypt", "kms:GenerateDataKey"])
def test_a_copy_within_the_bucket_is_read_and_written_with_its_key(delivery_stacks, action, key):
    context = {"kms__ViaService": f"s3.{REGION}.amazonaws.com", "kms__EncryptionContext__aws__s3__arn": key}
    assert may(delivery_stacks["dev"], "tritonstack-delivery-dev-deploy", action, KEY, **context)


@pytest.mark.parametrize(
    ("role", "service", "allowed"),
    [
        ("tritonstack-dev-build-JobsShared-1", "codebuild.amazonaws.com", True),
        ("tritonstack-dev-build-JobsShared-1", "ec2.amazonaws.com", False),
        ("tritonstack-dev-endpoint-search-1", "sagemaker.amazonaws.com", False),
        ("Admin", "codebuild.amazonaws.com", False),
    ],
)
def test_deploy_passes_only_the_roles_of_builds(delivery_stacks, role, service, allowed):
    permitted = may(
        delivery_stacks["dev"],
        "tritonstack-delivery-dev-deploy",
        "iam:PassRole",
        iam_role(role),
        iam__PassedToService=service,
    )
    assert permitted is allowed


CONFIG = arn("sagemaker", "endpoint-config/servingconfig79e8d9de-ab1")
MODEL = arn("sagemaker", "model/tritonstack-dev-endpoint-search-Model2AD80A05-Ab1")


@pytest.mark.parametrize(
    ("action", "resource"), [("sagemaker:DeleteEndpointConfig", CONFIG), ("sagemaker:DeleteModel", MODEL)]
)
@pytest.mark.parametrize(
    ("duty", "project", "environment", "allowed"),
    [
        ("deploy", "tritonstack", "dev", True),
        ("deploy", "tritonstack", "staging", False),
        ("deploy", "other", "dev", False),
        ("clean-up", "tritonstack", "pr-7", True),
        ("preview", "tritonstack", "pr-7", True),
        ("clean-up", "tritonstack", "dev", False),
        ("plan", "tritonstack", "dev", False),
    ],
)
def test_replaced_configurations_and_models_are_deleted_by_name_and_tags(
    delivery_stacks, duty, project, environment, allowed, action, resource
):
    tags = {"aws__ResourceTag/project": project, "aws__ResourceTag/environment": environment}
    role = f"tritonstack-delivery-dev-{duty}"
    assert may(delivery_stacks["dev"], role, action, resource, **tags) is allowed
    unrelated = resource.rpartition("/")[0] + "/unrelated"
    assert not may(delivery_stacks["dev"], role, action, unrelated, **tags)


SEARCH = arn("sagemaker", "endpoint/tritonstack-dev-search")
COMPONENT = arn("sagemaker", "inference-component/tritonstack-dev-search-component")


@pytest.mark.parametrize(
    ("duty", "action", "resource", "environment", "allowed"),
    [
        ("deploy", "sagemaker:UpdateEndpoint", SEARCH, "dev", True),
        ("deploy", "sagemaker:UpdateEndpoint", CONFIG, "dev", True),
        # An environment dev-x has endpoints with such names.
        ("deploy", "sagemaker:UpdateEndpoint", f"{SEARCH}-a", "dev-search", False),
        ("deploy", "sagemaker:UpdateEndpoint", CONFIG, "dev-search", False),
        ("deploy", "sagemaker:UpdateEndpoint", SEARCH.replace("-dev-", "-staging-"), "dev", False),
        ("plan", "sagemaker:UpdateEndpoint", SEARCH, "dev", False),
        ("deploy", "sagemaker:UpdateInferenceComponent", COMPONENT, "dev", True),
        ("deploy", "sagemaker:UpdateInferenceComponent", COMPONENT, "dev-search", False),
        ("deploy", "sagemaker:UpdateInferenceComponent", COMPONENT.replace("-dev-", "-pr-7-"), "dev", False),
    ],
)
def test_deploy_switches_its_own_endpoints_only(
    delivery_stacks, duty, action, resource, environment, allowed
):
    role = f"tritonstack-delivery-dev-{duty}"
    tags = {"aws__ResourceTag/project": "tritonstack", "aws__ResourceTag/environment": environment}
    assert may(delivery_stacks["dev"], role, action, resource, **tags) is allowed


@pytest.mark.parametrize(
    ("environment", "service", "for_aws", "allowed"),
    [
        ("dev", "sagemaker", "true", True),
        ("dev", "sagemaker", "false", False),
        ("dev", "ec2", "true", False),
        ("staging", "sagemaker", "true", False),
    ],
)
def test_sagemaker_gets_the_volume_key_of_a_switched_endpoint(
    delivery_stacks, environment, service, for_aws, allowed
):
    keys = {
        "aws__ResourceTag/project": "tritonstack",
        "aws__ResourceTag/environment": environment,
        "kms__ViaService": f"{service}.{REGION}.amazonaws.com",
        "kms__GrantIsForAWSResource": for_aws,
    }
    role = "tritonstack-delivery-dev-deploy"
    assert may(delivery_stacks["dev"], role, "kms:CreateGrant", KEY, **keys) is allowed
