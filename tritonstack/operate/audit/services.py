"""List resources that not only the name decides, one function per type; EC2 is in `network.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.operate.audit.resources import (
    AuditScope,
    AwsResource,
    UnreadableResource,
    created_in_other_region,
    scalable_target_id,
    tags_of,
)
from tritonstack.operate.audit.tagged import SCALABLE_TARGET, is_kept_out
from tritonstack.operate.shared.aws import Cloud, if_present, in_parallel, is_absent, pages

_NO_ARNS = ("PendingConfirmation", "Deleted")
"""SNS's placeholder for the ARN of an unconfirmed subscription."""
_SAGEMAKER_TARGETS = ("endpoint/", "inference-component/")


def stacks(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List CloudFormation stacks."""
    for stack in pages(cloud.client("cloudformation"), "describe_stacks", "Stacks"):
        if scope.names(stack["StackName"]):
            yield AwsResource(
                "AWS::CloudFormation::Stack", stack["StackName"], tags_of(stack.get("Tags", ()))
            )


def keys(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource | UnreadableResource]:
    """List keys; a key has no name, so its tags decide.

    A key whose policy denies this caller was not created by these stacks, which delegate access to IAM.
    Another failure is raised after the readable keys, so that it hides none of them.
    """
    kms = cloud.client("kms")
    described = re.compile(rf" of {re.escape(scope.base)}(?:-[a-z0-9-]*)?$")

    def describe(key_id: str) -> AwsResource | UnreadableResource | ClientError | None:
        try:
            key = kms.describe_key(KeyId=key_id)["KeyMetadata"]
        except ClientError as error:
            if is_kept_out(error):
                return UnreadableResource("AWS::KMS::Key", key_id)
            return None if is_absent(error) else error  # None: deleted meanwhile
        if key["KeyManager"] != "CUSTOMER" or not described.search(key.get("Description", "")):
            return None
        return AwsResource("AWS::KMS::Key", key_id, pending=key["KeyState"] == "PendingDeletion")

    ids = [key["KeyId"] for key in pages(kms, "list_keys", "Keys")]
    failures: list[ClientError] = []
    for answer in in_parallel(describe, ids):
        if isinstance(answer, ClientError):
            failures.append(answer)
        elif answer is not None:
            yield answer
    if failures:
        raise failures[0]


def repositories(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List repositories and their images."""
    ecr = cloud.client("ecr")
    for repository in pages(ecr, "describe_repositories", "repositories"):
        name = repository["repositoryName"]
        if not scope.names(name):
            continue
        home = AwsResource("AWS::ECR::Repository", name)
        yield home
        for image in pages(ecr, "list_images", "imageIds", repositoryName=name):
            label = image.get("imageDigest") or image["imageTag"]
            yield AwsResource("AWS::ECR::Image", f"{name}@{label}", within=home.key)


def log_groups(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List log groups of stacks and those that services create."""
    logs = cloud.client("logs")
    services = (
        (naming.endpoint_log_group(""), "AWS::SageMaker::Endpoint"),
        (naming.component_log_group(""), "AWS::SageMaker::InferenceComponent"),
        (naming.codebuild_log_group(""), "AWS::CodeBuild::Project"),
        ("/", None),
    )
    for before, maker in services:
        for group in pages(
            logs, "describe_log_groups", "logGroups", logGroupNamePrefix=f"{before}{scope.base}"
        ):
            name = group["logGroupName"]
            if scope.names(name, before):
                within = (maker, name.removeprefix(before)) if maker else None
                yield AwsResource("AWS::Logs::LogGroup", name, within=within)


def processing_jobs(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List Processing jobs. SageMaker keeps ended jobs, and no stack owns them: they belong to the build
    stack if it exists, otherwise they are leftovers."""
    client = cloud.client("sagemaker")
    for job in pages(client, "list_processing_jobs", "ProcessingJobSummaries", NameContains=scope.base):
        name = job["ProcessingJobName"]
        if scope.names(name):
            stack = naming.build_stack_of_job(name)
            within = ("AWS::CloudFormation::Stack", stack) if stack else None
            yield AwsResource("AWS::SageMaker::ProcessingJob", job["ProcessingJobArn"], within=within)


def scaling(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List scalable targets; they can outlive their endpoints."""
    client = cloud.client("application-autoscaling")

    def ours(item: Any) -> bool:
        return any(scope.names(item["ResourceId"], before) for before in _SAGEMAKER_TARGETS)

    for target in pages(client, "describe_scalable_targets", "ScalableTargets", ServiceNamespace="sagemaker"):
        if ours(target):
            yield AwsResource(SCALABLE_TARGET, scalable_target_id(target))
    for policy in pages(client, "describe_scaling_policies", "ScalingPolicies", ServiceNamespace="sagemaker"):
        if ours(policy):
            yield AwsResource("AWS::ApplicationAutoScaling::ScalingPolicy", policy["PolicyARN"])
    for action in pages(
        client, "describe_scheduled_actions", "ScheduledActions", ServiceNamespace="sagemaker"
    ):
        if ours(action):
            within = (SCALABLE_TARGET, scalable_target_id(action))
            yield AwsResource(
                "AWS::ApplicationAutoScaling::ScheduledAction", action["ScheduledActionARN"], within=within
            )


def alarms(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List alarms of stacks, and those that Application Auto Scaling creates and deletes with a policy."""
    client = cloud.client("cloudwatch")
    begins = ["", *(f"TargetTracking-{before}" for before in _SAGEMAKER_TARGETS)]
    kinds = (("MetricAlarms", "Alarm"), ("CompositeAlarms", "CompositeAlarm"))
    for before in begins:
        for page in client.get_paginator("describe_alarms").paginate(
            AlarmNamePrefix=f"{before}{scope.base}", AlarmTypes=["MetricAlarm", "CompositeAlarm"]
        ):
            for key, kind in kinds:
                for alarm in page.get(key, ()):
                    if scope.names(alarm["AlarmName"], before):
                        within = _policy_of(alarm) if before else None
                        yield AwsResource(f"AWS::CloudWatch::{kind}", alarm["AlarmName"], within=within)


def _policy_of(alarm: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the scaling policy of an alarm of target tracking; AWS may append its creator to the ARN."""
    for action in alarm.get("AlarmActions", ()):
        return "AWS::ApplicationAutoScaling::ScalingPolicy", action.partition(":createdBy/")[0]
    return None


def topics(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List topics and subscriptions.

    Unconfirmed subscriptions have no ARN and cannot be deleted: after the topic's deletion, SNS removes them
    later. The same holds for deleted subscriptions.
    """
    client = cloud.client("sns")
    existing = [topic["TopicArn"] for topic in pages(client, "list_topics", "Topics")]
    yield from (
        AwsResource("AWS::SNS::Topic", arn) for arn in existing if scope.names(arn.rpartition(":")[2])
    )
    for item in pages(client, "list_subscriptions", "Subscriptions"):
        topic, arn = item["TopicArn"], item["SubscriptionArn"]
        if scope.names(topic.rpartition(":")[2]):
            without_arn = arn in _NO_ARNS
            yield AwsResource(
                "AWS::SNS::Subscription",
                f"{topic} {arn} {item['Endpoint']}" if without_arn else arn,
                within=("AWS::SNS::Topic", topic),
                pending=without_arn and topic not in existing,
            )


def roles(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List roles, which CloudFormation names after their stacks. Inline policies are part of a role.

    Roles are global: an environment with the same name in another region may own some.
    """
    client = cloud.client("iam")
    named = [
        (AwsResource("AWS::IAM::Role", role["RoleName"]), "list_role_tags", {"RoleName": role["RoleName"]})
        for role in pages(client, "list_roles", "Roles")
        if scope.names(role["RoleName"])
    ]
    named += [
        (
            AwsResource("AWS::IAM::ManagedPolicy", policy["Arn"]),
            "list_policy_tags",
            {"PolicyArn": policy["Arn"]},
        )
        for policy in pages(client, "list_policies", "Policies", Scope="Local")
        if scope.names(policy["PolicyName"])
    ]
    for entities, operation, kind in named:
        tags = if_present(lambda: tags_of(pages(client, operation, "Tags", **kind)))  # noqa: B023 - called at once
        # None: deleted meanwhile.
        if tags is not None and not created_in_other_region(tags, cloud.region):
            yield replace(entities, tags=tags)


def parameters(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List Systems Manager parameters."""
    for item in pages(
        cloud.client("ssm"),
        "describe_parameters",
        "Parameters",
        ParameterFilters=[{"Key": "Name", "Option": "BeginsWith", "Values": [f"/{scope.base}"]}],
    ):
        if scope.names(item["Name"], "/"):
            yield AwsResource("AWS::SSM::Parameter", item["Name"])


def identity_providers(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List OIDC providers of the account; their tags show the owner."""
    client = cloud.client("iam")
    for provider in client.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
        arn = provider["Arn"]
        listed = client.list_open_id_connect_provider_tags(OpenIDConnectProviderArn=arn)
        tags = tags_of(listed["Tags"])
        if scope.tagged(tags) and not created_in_other_region(tags, cloud.region):
            yield AwsResource("AWS::IAM::OIDCProvider", arn, tags)
