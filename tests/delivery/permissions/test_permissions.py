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


ARTIFACT = f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz"
CONFIG = arn("sagemaker", "endpoint-config/servingconfig79e8d9de-ab1")
MODEL = arn("sagemaker", "model/tritonstack-dev-endpoint-search-Model2AD80A05-Ab1")
SEARCH = arn("sagemaker", "endpoint/tritonstack-dev-search")
COMPONENT = arn("sagemaker", "inference-component/tritonstack-dev-search-component")
OTHERS_COMPONENT = COMPONENT.replace("-dev-", "-pr-7-")


def stored(arn):
    return {"kms:ViaService": f"s3.{REGION}.amazonaws.com", "kms:EncryptionContext:aws:s3:arn": arn}


def tagged(environment, project="tritonstack"):
    return {"aws:ResourceTag/project": project, "aws:ResourceTag/environment": environment}


def for_aws(environment, service="sagemaker", answer="true"):
    through = {"kms:ViaService": f"{service}.{REGION}.amazonaws.com"}
    return {**tagged(environment), **through, "kms:GrantIsForAWSResource": answer}


def passed_to(service):
    return {"iam:PassedToService": f"{service}.amazonaws.com"}


DEV = [
    # Plan looks at everything of its environment and changes nothing.
    ("plan", "cloudformation:GetTemplate", stack("dev-build"), True),
    ("plan", "sagemaker:DescribeEndpoint", endpoint("dev-search"), True),
    ("plan", "s3:GetObject", f"{DEV_BUCKET}/events/1.json", True),
    ("plan", "cloudwatch:DescribeAlarmHistory", arn("cloudwatch", "alarm:tritonstack-dev-search-x"), True),
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
    ("preview-execution", "cloudwatch:PutMetricAlarm", arn("cloudwatch", "alarm:tritonstack-dev-x"), False),
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
    # A rollback deletes nothing, and reads only its own history.
    ("deploy", "s3:DeleteObject", ARTIFACT, False),
    ("deploy", "s3:DeleteObjectVersion", ARTIFACT, False),
    ("deploy", "s3:GetObjectVersion", f"{DEV_BUCKET}/events/1.json", False),
    ("deploy", "s3:GetObjectVersion", ARTIFACT.replace("-dev-", "-staging-"), False),
    ("deploy", "s3:PutObjectVersionTagging", f"{DEV_BUCKET}/endpoints/x/model.tar.gz", False),
    ("deploy", "s3:ListBucketVersions", DEV_BUCKET, False),  # only those of models
    # A copy within the bucket is read and written with its key.
    *(
        ("deploy", f"kms:{action}", KEY, True, stored(place))
        for action in ("Decrypt", "GenerateDataKey")
        for place in (DEV_BUCKET, ARTIFACT)
    ),
    ("deploy", "kms:Decrypt", KEY, False, stored(STAGING_BUCKET)),
    ("deploy", "kms:Decrypt", KEY, False),
    # Only the roles of builds are passed.
    ("deploy", "iam:PassRole", iam_role("tritonstack-dev-build-JobsShared-1"), True, passed_to("codebuild")),
    ("deploy", "iam:PassRole", iam_role("tritonstack-dev-build-JobsShared-1"), False, passed_to("ec2")),
    ("deploy", "iam:PassRole", iam_role("tritonstack-dev-endpoint-search-1"), False, passed_to("sagemaker")),
    ("deploy", "iam:PassRole", iam_role("Admin"), False, passed_to("codebuild")),
    # Replaced configurations and models are deleted by name and tags.
    *(
        (duty, action, resource, allowed and not resource.endswith("/unrelated"), tags)
        for action, resource in (
            ("sagemaker:DeleteEndpointConfig", CONFIG),
            ("sagemaker:DeleteEndpointConfig", arn("sagemaker", "endpoint-config/unrelated")),
            ("sagemaker:DeleteModel", MODEL),
            ("sagemaker:DeleteModel", arn("sagemaker", "model/unrelated")),
        )
        for duty, allowed, tags in (
            ("deploy", True, tagged("dev")),
            ("deploy", False, tagged("staging")),
            ("deploy", False, tagged("dev", project="other")),
            ("clean-up", True, tagged("pr-7")),
            ("preview", True, tagged("pr-7")),
            ("clean-up", False, tagged("dev")),
            ("plan", False, tagged("dev")),
        )
    ),
    # Deploy switches its own endpoints only; an environment dev-x has endpoints with names of dev's.
    ("deploy", "sagemaker:UpdateEndpoint", SEARCH, True, tagged("dev")),
    ("deploy", "sagemaker:UpdateEndpoint", CONFIG, True, tagged("dev")),
    ("deploy", "sagemaker:UpdateEndpoint", f"{SEARCH}-a", False, tagged("dev-search")),
    ("deploy", "sagemaker:UpdateEndpoint", CONFIG, False, tagged("dev-search")),
    ("deploy", "sagemaker:UpdateEndpoint", SEARCH.replace("-dev-", "-staging-"), False, tagged("dev")),
    ("plan", "sagemaker:UpdateEndpoint", SEARCH, False, tagged("dev")),
    ("deploy", "sagemaker:UpdateInferenceComponent", COMPONENT, True, tagged("dev")),
    ("deploy", "sagemaker:UpdateInferenceComponent", COMPONENT, False, tagged("dev-search")),
    ("deploy", "sagemaker:UpdateInferenceComponent", OTHERS_COMPONENT, False, tagged("dev")),
    # SageMaker gets the volume key of a switched endpoint.
    ("deploy", "kms:CreateGrant", KEY, True, for_aws("dev")),
    ("deploy", "kms:CreateGrant", KEY, False, for_aws("dev", answer="false")),
    ("deploy", "kms:CreateGrant", KEY, False, for_aws("dev", "ec2")),
    ("deploy", "kms:CreateGrant", KEY, False, for_aws("staging")),
]


@pytest.mark.parametrize("row", DEV, ids=lambda row: " ".join(map(str, row[:3])))
def test_delivery_role_permissions_in_dev(delivery_stacks, row):
    duty, action, resource, allowed, *keys = row
    role, context = f"tritonstack-delivery-dev-{duty}", {"s3:prefix": "", **(keys[0] if keys else {})}
    assert may(delivery_stacks["dev"], role, action, resource, **context) is allowed


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
    role, there = f"tritonstack-delivery-staging-{duty}", resource.replace("-dev-", "-staging-")
    permitted = may(delivery_stacks["staging"], role, action, there, **{"s3:prefix": "models/x/ab/"})
    others = ("s3:PutObject", "s3:PutObjectTagging") if duty == "promote" else ()
    assert permitted is (duty == "deploy" or action in others)


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
