"""What each delivery role can do, and what none can do."""

from __future__ import annotations

import json
import shutil

import pytest

from stacks.delivery import DeliveryStack
from stacks.delivery_target import delivery_target
from stacks.environment import add_environment
from tests.delivery.delivery_project import DEV, PROD, REGION
from tests.delivery.permissions.iam import listed, may, roles, within
from tests.stacks.assemblies import new_app
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.project.loading import load_instance, sample_instance

KEY = f"arn:aws:kms:{REGION}:{DEV}:key/0a1b"


def arn(service, resource, account=DEV, region=REGION):
    return f"arn:aws:{service}:{region}:{account}:{resource}"


def iam_role(name, account=DEV):
    return f"arn:aws:iam::{account}:role/{name}"


DEV_BUCKET = f"arn:aws:s3:::tritonstack-dev-artifacts-{DEV}-{REGION}"
STAGING_BUCKET = f"arn:aws:s3:::tritonstack-staging-artifacts-{DEV}-{REGION}"
PREVIEW_BUCKET = f"arn:aws:s3:::tritonstack-pr-7-artifacts-{DEV}-{REGION}"
CDK = iam_role(f"cdk-hnb659fds-deploy-role-{DEV}-{REGION}")
FILES = iam_role(f"cdk-hnb659fds-file-publishing-role-{DEV}-{REGION}")
PREVIEW_ASSETS = f"arn:aws:s3:::cdk-preview-assets-{DEV}-{REGION}"
PREVIEW_FILES = FILES.replace("hnb659fds", "preview")
LOOKUP = iam_role(f"cdk-hnb659fds-lookup-role-{DEV}-{REGION}")
EXECUTION = iam_role(f"cdk-hnb659fds-cfn-exec-role-{DEV}-{REGION}")
PREVIEW_EXECUTION = iam_role("tritonstack-delivery-dev-preview-execution")
SCALING_ROLE = iam_role(
    "aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
    "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)


@pytest.mark.parametrize(
    ("duty", "action", "resource", "allowed"),
    [
        # Plan looks at everything of its environment and changes nothing.
        ("plan", "cloudformation:GetTemplate", arn("cloudformation", "stack/tritonstack-dev-build/1"), True),
        ("plan", "sagemaker:DescribeEndpoint", arn("sagemaker", "endpoint/tritonstack-dev-search"), True),
        ("plan", "s3:GetObject", f"{DEV_BUCKET}/events/1.json", True),
        ("plan", "sts:AssumeRole", LOOKUP, False),  # which reads the whole account
        ("plan", "s3:GetObject", f"{STAGING_BUCKET}/events/1.json", False),
        ("plan", "s3:PutObject", f"{DEV_BUCKET}/events/1.json", False),
        ("plan", "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/tritonstack-dev-search"), False),
        ("plan", "sts:AssumeRole", CDK, False),
        # Deploy goes through the CDK's roles, publishes, builds, and asks endpoints.
        ("deploy", "sts:AssumeRole", CDK, True),
        ("deploy", "sts:AssumeRole", FILES, True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/endpoints/x/model.tar.gz", True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/events/1.json", True),
        ("deploy", "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/tritonstack-dev-search"), True),
        ("deploy", "codebuild:StartBuild", arn("codebuild", "project/tritonstack-dev-build-cpu"), True),
        ("deploy", "s3:DeleteObject", f"{DEV_BUCKET}/events/1.json", False),
        ("deploy", "s3:PutObject", f"{STAGING_BUCKET}/events/1.json", False),
        ("deploy", "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/tritonstack-staging-a"), False),
        ("deploy", "sts:AssumeRole", EXECUTION, False),
        ("deploy", "sts:AssumeRole", iam_role("Admin"), False),
        ("deploy", "iam:PutRolePolicy", iam_role("tritonstack-delivery-dev-deploy"), False),
        (
            "deploy",
            "cloudformation:DeleteStack",
            arn("cloudformation", "stack/tritonstack-dev-build/1"),
            False,
        ),
        # Previews: theirs alone.
        (
            "preview",
            "cloudformation:CreateChangeSet",
            arn("cloudformation", "stack/tritonstack-pr-7-a/1"),
            True,
        ),
        ("preview", "cloudformation:DeleteStack", arn("cloudformation", "stack/tritonstack-pr-7-a/1"), True),
        ("preview", "s3:DeleteObjectVersion", f"{PREVIEW_BUCKET}/models/x", True),
        ("preview", "s3:PutObject", f"{PREVIEW_BUCKET}/models/x", True),
        ("preview", "s3:GetObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("preview", "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/tritonstack-pr-7-search"), True),
        (
            "preview",
            "cloudformation:CreateChangeSet",
            arn("cloudformation", "stack/tritonstack-dev-a/1"),
            False,
        ),
        ("preview", "cloudformation:DeleteStack", arn("cloudformation", "stack/tritonstack-dev-a/1"), False),
        (
            "preview",
            "cloudformation:UpdateStack",
            arn("cloudformation", "stack/tritonstack-delivery-dev/1"),
            False,
        ),
        ("preview", "s3:DeleteObject", f"{DEV_BUCKET}/models/x", False),
        ("preview", "s3:PutObject", f"{DEV_BUCKET}/models/x", False),
        ("preview", "sts:AssumeRole", CDK, False),
        # What a pull request publishes, no deploy of dev takes up.
        ("preview", "sts:AssumeRole", PREVIEW_FILES, True),
        ("preview", "sts:AssumeRole", FILES, False),
        (
            "preview-execution",
            "s3:GetObject",
            f"{PREVIEW_ASSETS}/0a.json",
            True,
        ),
        ("deploy", "sts:AssumeRole", PREVIEW_FILES, False),
        # What CloudFormation makes previews with.
        (
            "preview-execution",
            "sagemaker:CreateEndpoint",
            arn("sagemaker", "endpoint/tritonstack-pr-7-x"),
            True,
        ),
        (
            "preview-execution",
            "sagemaker:UpdateEndpoint",
            arn("sagemaker", "endpoint/tritonstack-dev-x"),
            False,
        ),
        (
            "preview-execution",
            "sagemaker:DeleteEndpoint",
            arn("sagemaker", "endpoint/tritonstack-dev-x"),
            False,
        ),
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
        ("clean-up", "cloudformation:DeleteStack", arn("cloudformation", "stack/tritonstack-pr-7-a/1"), True),
        ("clean-up", "cloudformation:DeleteStack", arn("cloudformation", "stack/tritonstack-dev-a/1"), False),
        (
            "clean-up",
            "cloudformation:CreateChangeSet",
            arn("cloudformation", "stack/tritonstack-pr-7-a/1"),
            False,
        ),
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
    found = may(
        delivery_stacks["staging"],
        role,
        action,
        resource.replace("-dev-", "-staging-"),
        s3__prefix="models/x/ab/",
    )
    others = ("s3:PutObject", "s3:PutObjectTagging") if duty == "promote" else ()
    assert found is (duty == "deploy" or action in others)


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
    found = may(
        delivery_stacks["dev"],
        "tritonstack-delivery-dev-deploy",
        "iam:PassRole",
        iam_role(role),
        iam__PassedToService=service,
    )
    assert found is allowed


@pytest.mark.parametrize(("role", "allowed"), [(PREVIEW_EXECUTION, True), (EXECUTION, False)])
def test_previews_are_created_with_their_own_role_only(delivery_stacks, role, allowed):
    found = may(
        delivery_stacks["dev"],
        "tritonstack-delivery-dev-preview",
        "iam:PassRole",
        role,
        iam__PassedToService="cloudformation.amazonaws.com",
    )
    assert found is allowed


PREVIEW_ROLE = iam_role("tritonstack-pr-7-endpoint-search-Role-1")
EDGE = f"arn:aws:iam::{DEV}:policy/tritonstack-delivery-dev-preview-boundary"


@pytest.mark.parametrize("action", ["CreateRole", "PutRolePolicy", "AttachRolePolicy"])
@pytest.mark.parametrize(
    ("role", "boundary", "allowed"),
    [
        (PREVIEW_ROLE, {"iam__PermissionsBoundary": EDGE}, True),
        (PREVIEW_ROLE, {"iam__PermissionsBoundary": EDGE.replace("preview-boundary", "boundary")}, False),
        (PREVIEW_ROLE, {}, False),
        (iam_role("tritonstack-dev-x"), {"iam__PermissionsBoundary": EDGE}, False),
    ],
)
def test_every_preview_role_has_a_boundary(delivery_stacks, action, role, boundary, allowed):
    made_with = "tritonstack-delivery-dev-preview-execution"
    assert may(delivery_stacks["dev"], made_with, f"iam:{action}", role, **boundary) is allowed


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("iam:CreateRole", iam_role("tritonstack-pr-7-x")),
        ("sts:AssumeRole", CDK),
        ("cloudformation:CreateStack", arn("cloudformation", "stack/tritonstack-pr-7-a/1")),
        ("s3:GetObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz"),
        ("s3:PutObject", f"{DEV_BUCKET}/events/1.json"),
        ("s3:PutObject", f"{PREVIEW_ASSETS}/0a1b.json"),
        ("s3:GetObject", f"arn:aws:s3:::cdk-hnb659fds-assets-{DEV}-{REGION}/0a1b.json"),
        ("ecr:PutImage", arn("ecr", "repository/tritonstack-dev/serving")),
        ("kms:Decrypt", KEY),
        ("kms:CreateGrant", KEY),
        ("sagemaker:DeleteEndpoint", arn("sagemaker", "endpoint/tritonstack-dev-search")),
        ("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:x")),
    ],
)
def test_administrator_policy_in_a_preview_is_limited_by_the_boundary(delivery_stacks, action, resource):
    assert not within(edge_of(delivery_stacks), action, resource, {"aws:RequestedRegion": REGION})


def test_the_preview_boundary_allows_what_its_roles_need(roads, delivery_stacks, tmp_path):
    """For every option of an environment: build jobs, a network, an asynchronous endpoint."""
    root = tmp_path / "project"
    shutil.copytree(roads.root, root, symlinks=True)
    file = Project(root).template_file("preview")
    more = "  bulk: {kind: ensemble, model: encoder, instance_type: ml.c7i.xlarge, asynchronous: {}}\n"
    file.write_text(file.read_text() + more + "network: {create: {}}\n")
    app = new_app(tmp_path / "out")
    add_environment(app, workspace=load_instance(Project(root), sample_instance("preview", "pr-7")))
    app.synth()
    asked = list(asked_by_roles(tmp_path / "out"))
    assert len(asked) > 50
    edge = edge_of(delivery_stacks)
    assert [one[:2] for one in asked if not within(edge, *one)] == []


def edge_of(delivery_stacks):
    (found,) = [
        item["Properties"]["PolicyDocument"]["Statement"]
        for item in delivery_stacks["dev"]["Resources"].values()
        if item["Properties"].get("ManagedPolicyName") == EDGE.rpartition("/")[2]
    ]
    return found


def asked_by_roles(folder):
    """Yield each action and resource that roles of these stacks are granted, with the reason."""
    for file in folder.glob("*.template.json"):
        for item in json.loads(file.read_text())["Resources"].values():
            if item["Type"] != "AWS::IAM::Policy":
                continue
            for statement in item["Properties"]["PolicyDocument"]["Statement"]:
                given = statement.get("Condition", {}).values()
                keys = {key: listed(value)[0] for held in given for key, value in held.items()}
                if "kms:CreateGrant" in listed(statement["Action"]):
                    keys["kms:GrantIsForAWSResource"] = "true"  # SageMaker asks for volumes
                if keys.get("kms:ViaService", "").startswith("sns"):
                    keys["kms:EncryptionContext:aws:sns:topicArn"] = arn("sns", "tritonstack-pr-7-bulk")
                for action in listed(statement["Action"]):
                    for resource in listed(statement["Resource"]):
                        yield action, shown(action, resource), keys


def shown(action, resource):
    """Return an ARN in place of a reference that only the deploy resolves."""
    if isinstance(resource, str):
        return resource.replace("*", "x") if resource != "*" else resource
    text = json.dumps(resource)
    for service, example in (
        ("kms", KEY),
        ("sns", arn("sns", "tritonstack-pr-7-bulk")),
        ("ec2", arn("ec2", "subnet/subnet-1")),
        ("logs", arn("logs", "log-group:/tritonstack-pr-7/x")),
    ):
        if action.startswith(f"{service}:"):
            return example
    raise AssertionError(f"{action} on {text}: nothing is known of this")


@pytest.mark.parametrize(
    ("imports", "allowed"),
    [({}, True), ({"cloudformation__ImportResourceTypes": "AWS::KMS::Key"}, False)],
)
def test_a_preview_adopts_no_existing_resource(delivery_stacks, imports, allowed):
    """Otherwise it would be deleted with the preview: keys and models do not have the preview's name."""
    stack = arn("cloudformation", "stack/tritonstack-pr-7-a/1")
    role = "tritonstack-delivery-dev-preview"
    assert may(delivery_stacks["dev"], role, "cloudformation:CreateChangeSet", stack, **imports) is allowed


@pytest.mark.parametrize(
    ("environment", "resource", "allowed"),
    [
        ("staging", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("staging", f"{DEV_BUCKET}/endpoints/x", False),
        ("prod", f"{STAGING_BUCKET}/models/encoder/ab/model.tar.gz", False),
    ],
)
def test_promote_reads_the_source_itself_only_within_one_account(
    delivery_stacks, environment, resource, allowed
):
    role = f"tritonstack-delivery-{environment}-promote"
    assert may(delivery_stacks[environment], role, "s3:GetObject", resource) is allowed


def test_promote_reads_another_accounts_source_through_its_reader(delivery_stacks):
    role, action = "tritonstack-delivery-prod-promote", "sts:AssumeRole"
    assert may(
        delivery_stacks["prod"], role, action, iam_role("tritonstack-delivery-staging-promotion-reader")
    )
    assert not may(
        delivery_stacks["prod"], role, action, iam_role("tritonstack-delivery-dev-promotion-reader")
    )
    target = f"arn:aws:s3:::tritonstack-prod-artifacts-{PROD}-{REGION}"
    assert may(delivery_stacks["prod"], role, "s3:PutObject", f"{target}/models/x")
    assert not may(delivery_stacks["prod"], role, "s3:PutObject", f"{target}/endpoints/x")
    assert not may(delivery_stacks["prod"], role, "s3:DeleteObject", f"{target}/models/x")


def test_key_is_used_only_for_the_buckets_of_the_environment(delivery_stacks):
    role = "tritonstack-delivery-dev-deploy"

    def allowed(bucket):
        return may(
            delivery_stacks["dev"],
            role,
            "kms:Decrypt",
            KEY,
            kms__ViaService="s3.eu-west-1.amazonaws.com",
            kms__EncryptionContext__aws__s3__arn=bucket,
        )

    assert allowed(DEV_BUCKET)
    assert not allowed(STAGING_BUCKET)
    assert not may(delivery_stacks["dev"], role, "kms:Decrypt", KEY)


def test_every_role_has_a_boundary(delivery_stacks):
    found = {
        name: [role["PermissionsBoundary"] for role in roles(template).values()]
        for name, template in delivery_stacks.items()
    }
    assert set(found) == {"dev", "staging", "prod"}
    assert all(found.values())
    assert set(found.pop("prod")) == {f"arn:aws:iam::{PROD}:policy/team-boundary"}
    for name, boundaries in found.items():
        resources = delivery_stacks[name]["Resources"]
        assert {resources[one["Ref"]]["Type"] for one in boundaries} == {"AWS::IAM::ManagedPolicy"}


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_boundary_limits_every_other_grant(delivery_stacks, environment):
    """Someone attaches an administrator policy to the deploy role."""
    template = delivery_stacks[environment] | {
        "Resources": delivery_stacks[environment]["Resources"]
        | {
            "Administrator": {
                "Type": "AWS::IAM::Policy",
                "Properties": {
                    "Roles": [
                        {
                            "Ref": roles(delivery_stacks[environment])[
                                f"tritonstack-delivery-{environment}-deploy"
                            ]["id"]
                        }
                    ],
                    "PolicyDocument": {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]},
                },
            }
        }
    }
    role = f"tritonstack-delivery-{environment}-deploy"
    assert may(template, role, "s3:DeleteObject", f"{DEV_BUCKET}/models/x")
    for action in ("iam:CreateUser", "iam:PutRolePolicy", "iam:UpdateAssumeRolePolicy", "iam:DeletePolicy"):
        assert not may(template, role, action, iam_role("tritonstack-delivery-dev-deploy"))
    assert not may(template, role, "sts:AssumeRole", iam_role("Admin"))
    assert not may(template, role, "sagemaker:CreateEndpoint", "*", **{"aws__RequestedRegion": "us-east-1"})


def executing(template, environment):
    """Return the statements of the policies for `cdk bootstrap`."""
    names = [f"tritonstack-delivery-{environment}-execution{part}" for part in ("", "-security")]
    found = {
        item["Properties"].get("ManagedPolicyName"): item["Properties"].get("PolicyDocument")
        for item in template["Resources"].values()
    }
    return [statement for name in names for statement in found[name]["Statement"]]


def test_cloudformation_permissions_can_be_limited_to_the_environment(delivery_stacks):
    """The policy that `cdk bootstrap` is given."""
    statements = executing(delivery_stacks["prod"], "prod")
    assert "*" not in [statement["Action"] for statement in statements]
    makes_roles = [statement for statement in statements if "iam:CreateRole" in statement["Action"]]
    (statement,) = makes_roles
    assert statement["Resource"] == [iam_role("tritonstack-prod-*", PROD)]
    assert statement["Condition"] == {
        "StringEquals": {"iam:PermissionsBoundary": f"arn:aws:iam::{PROD}:policy/team-boundary"}
    }
    assert any("ec2:CreateVpc" in statement["Action"] for statement in statements)


PREVIEWS_KEY = {"aws:ResourceTag/project": "tritonstack", "aws:ResourceTag/environment": "pr-7"}
DEVS_KEY = {**PREVIEWS_KEY, "aws:ResourceTag/environment": "dev"}
NEW_KEY = {key.replace("Resource", "Request"): text for key, text in PREVIEWS_KEY.items()}


@pytest.mark.parametrize(
    ("action", "context", "allowed"),
    [
        ("CreateKey", {}, True),
        ("EnableKeyRotation", {}, True),  # at once after it was made
        ("TagResource", NEW_KEY, True),  # while it is made
        ("TagResource", {**NEW_KEY, "aws:RequestTag/environment": "dev"}, False),
        ("TagResource", {**NEW_KEY, **DEVS_KEY}, False),  # so that dev's would be a preview's
        ("TagResource", {**NEW_KEY, "kms:ResourceAliases": "alias/somebodys"}, False),
        ("TagResource", PREVIEWS_KEY, True),
        *((action, PREVIEWS_KEY, True) for action in ("DisableKey", "PutKeyPolicy", "ScheduleKeyDeletion")),
        *((action, DEVS_KEY, False) for action in ("DisableKey", "PutKeyPolicy", "ScheduleKeyDeletion")),
        *((action, {}, False) for action in ("PutKeyPolicy", "ScheduleKeyDeletion", "UntagResource")),
        ("Decrypt", DEVS_KEY, False),
        ("CreateGrant", PREVIEWS_KEY, False),
        ("CreateGrant", {"kms:ViaService": f"ecr.{REGION}.amazonaws.com"}, True),
        ("CreateGrant", {"kms:ViaService": f"ec2.{REGION}.amazonaws.com"}, False),
        ("ReEncryptFrom", PREVIEWS_KEY, False),
    ],
)
def test_keys_of_other_environments_are_unchanged(delivery_stacks, action, context, allowed):
    role = "tritonstack-delivery-dev-preview-execution"
    resource = "*" if action == "CreateKey" else KEY
    assert may(delivery_stacks["dev"], role, f"kms:{action}", resource, **context) is allowed


def test_an_environment_is_recognized_by_tags_that_its_file_sets(delivery_stacks):
    policy = executing(delivery_stacks["staging"], "staging")
    staging = {"aws:ResourceTag/project": "tritonstack", "aws:ResourceTag/environment": "staging"}
    region = {"aws:RequestedRegion": REGION}
    assert within(policy, "kms:ScheduleKeyDeletion", KEY, {**region, **staging})
    assert not within(policy, "kms:ScheduleKeyDeletion", KEY, {**region, **DEVS_KEY})
    assert not within(policy, "kms:CreateAlias", arn("kms", "alias/tritonstack-dev"), region)


def test_policies_fit_the_iam_limits(delivery_stacks):
    """6,144 characters per managed policy, 10,240 for all inline policies of a role, without whitespace."""
    limits = {"AWS::IAM::ManagedPolicy": 6_144, "AWS::IAM::Policy": 10_240}
    policies = [
        item
        for template in delivery_stacks.values()
        for item in template["Resources"].values()
        if item["Type"] in limits
    ]
    assert {item["Type"] for item in policies} == set(limits)
    for item in policies:
        document = item["Properties"]["PolicyDocument"]
        assert len(json.dumps(document, separators=(",", ":"))) <= limits[item["Type"]]


def test_previews_without_a_boundary_are_not_delivered(roads, tmp_path):
    shutil.copytree(roads.root, tmp_path, symlinks=True, dirs_exist_ok=True)
    project = Project(tmp_path)
    file = project.template_file("preview")
    lines = [line for line in file.read_text().splitlines() if "permissions_boundary" not in line]
    file.write_text("\n".join(lines))
    with pytest.raises(UsageError, match="no permissions boundary"):
        delivery_target(project, "dev")
    delivery_target(project, "staging")


def test_previews_that_publish_to_a_deploy_source_are_not_delivered(roads, tmp_path):
    shutil.copytree(roads.root, tmp_path, symlinks=True, dirs_exist_ok=True)
    project = Project(tmp_path)
    file = project.template_file("preview")
    file.write_text(file.read_text().replace("bootstrap_qualifier: preview", ""))
    with pytest.raises(UsageError, match="share the bootstrap bucket"):
        delivery_target(project, "dev")
    delivery_target(project, "staging")


def test_delivery_stack_is_deployed_manually_and_separately(roads, tmp_path):
    app = new_app(tmp_path)
    DeliveryStack(app, target=delivery_target(roads, "dev"))
    app.synth()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    properties = manifest["artifacts"]["tritonstack-delivery-dev"]["properties"]
    assert "assumeRoleArn" not in properties  # the rights of whoever deploys it
    assert "cloudFormationExecutionRoleArn" not in properties
    assert properties["terminationProtection"] is True
    assert properties["tags"] == {
        "team": "search",
        "project": "tritonstack",
        "purpose": "delivery of dev",
    }
