"""Limits of an audit: unreadable resources, rejected calls, and resources shared between regions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.operate.audit.test_audit import ALLOWED, BASE, MINE, SCOPE, TRUST, listing_of, plant
from tritonstack.base.results import document
from tritonstack.operate.audit import audit as reports
from tritonstack.operate.audit import tagged as tagging
from tritonstack.operate.audit.audit import LISTINGS, Item, Report, find_resources
from tritonstack.operate.audit.resources import AwsResource, Listing
from tritonstack.operate.audit.services import alarms, scaling
from tritonstack.operate.audit.tagged import scalable_targets
from tritonstack.operate.shared.aws import Cloud, pages


def kept_out(by: str) -> ClientError:
    message = (
        f"not authorized to perform: kms:DescribeKey on resource: k because {by} policy allows the action"
    )
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, "DescribeKey")


def guard_key(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, guarded: str, error: ClientError) -> None:
    """moto's KMS with a key whose policy denies reading it."""
    kms = cloud.client("kms")
    describe = kms.describe_key

    def look(KeyId: str) -> Any:  # noqa: N803  boto3's spelling
        if guarded == KeyId:
            raise error
        return describe(KeyId=KeyId)

    monkeypatch.setattr(kms, "describe_key", look)
    monkeypatch.setattr(
        reports, "LISTINGS", [listing for listing in LISTINGS if listing.types == ("AWS::KMS::Key",)]
    )


def test_an_unreadable_key_does_not_hide_others(cloud, monkeypatch):
    foreign = cloud.client("kms").create_key(Description="somebody's")["KeyMetadata"]["KeyId"]
    mine = [
        cloud.client("kms").create_key(Description=f"Encrypts all of {BASE}")["KeyMetadata"]["KeyId"]
        for _ in range(2)
    ]
    guard_key(cloud, monkeypatch, foreign, kept_out("no resource-based"))
    report = find_resources(cloud, SCOPE)
    assert sorted(item.id for item in report.resources) == sorted(mine)
    assert ([item.id for item in report.not_described], report.not_listed) == ([foreign], ())
    assert document(report)["not_described"] == [{"type": "AWS::KMS::Key", "id": foreign}]


def test_alarms_of_target_tracking_belong_to_their_policy(cloud):
    policy = (
        f"arn:aws:autoscaling:us-east-1:1:scalingPolicy:a:resource/sagemaker/endpoint/{BASE}-x/variant/main"
    )
    for name, actions in {"high": [f"{policy}:createdBy/b"], "low": []}.items():
        cloud.client("cloudwatch").put_metric_alarm(
            AlarmName=f"TargetTracking-endpoint/{BASE}-x/variant/main-{name}",
            AlarmActions=actions,
            Namespace="AWS/SageMaker",
            MetricName="InvocationsPerInstance",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=3,
            Threshold=1,
            ComparisonOperator="GreaterThanThreshold",
        )
    parents = {alarm.id.rpartition("-")[2]: alarm.within for alarm in alarms(cloud, SCOPE)}
    assert parents == {"high": ("AWS::ApplicationAutoScaling::ScalingPolicy", policy), "low": None}


def test_a_tagged_scalable_target_is_the_listed_one(cloud, monkeypatch):
    """Its ARN holds a number only. The tagging API reports deregistered targets for a while."""
    plant(cloud, "AWS::ApplicationAutoScaling::ScalableTarget")
    registered = scalable_targets(cloud)
    (arn,) = registered
    reported = [{"ResourceARN": target_arn, "Tags": []} for target_arn in (arn, f"{arn}0")]

    def listed(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
        return iter(reported) if operation == "get_resources" else pages(client, operation, key, **arguments)

    monkeypatch.setattr(tagging, "pages", listed)
    by_name = {target.key for target in scaling(cloud, SCOPE)}
    assert {target.key for target in tagging.tagged(cloud, SCOPE)} == by_name
    assert by_name == {("AWS::ApplicationAutoScaling::ScalableTarget", registered[arn])}


def test_a_key_that_cannot_be_described_is_an_error_and_hides_no_other(cloud, monkeypatch):
    create = cloud.client("kms").create_key
    key, mine = (create(Description=f"Encrypts all of {BASE}")["KeyMetadata"]["KeyId"] for _ in range(2))
    guard_key(cloud, monkeypatch, key, kept_out("no identity-based"))
    report = find_resources(cloud, SCOPE)
    assert ([item.service for item in report.not_listed], report.not_described) == (["kms"], ())
    assert [item.id for item in report.resources] == [mine]


def test_the_tagging_service_is_trusted_if_the_service_itself_rejects(cloud, monkeypatch):
    def tell(*_: Any) -> Iterator[AwsResource]:
        yield AwsResource("AWS::SNS::Topic", "by-tag", SCOPE.tags)

    def reject(*_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListTopics")

    monkeypatch.setattr(reports, "LISTINGS", ())
    monkeypatch.setattr(reports, "_BY_TAG", Listing("by tag", (), tell))
    monkeypatch.setattr(reports, "still_there", reject)
    report = find_resources(cloud, SCOPE)
    assert [item.id for item in report.orphans] == ["by-tag"]
    assert [item.service for item in report.not_listed] == ["AWS::SNS::Topic"]


@pytest.mark.parametrize(("region", "counts"), [("us-east-1", True), ("eu-west-1", False), (None, True)])
def test_role_of_the_same_environment_in_another_region_is_separate(cloud, region, *, counts):
    stack = f"arn:aws:cloudformation:{region}:123456789012:stack/{MINE}/1"
    tags = [{"Key": "aws:cloudformation:stack-id", "Value": stack}] if region else []
    iam = cloud.client("iam")
    iam.create_role(RoleName=f"{BASE}-role", AssumeRolePolicyDocument=TRUST, Tags=tags)
    iam.create_policy(PolicyName=f"{BASE}-bounds", PolicyDocument=ALLOWED, Tags=tags)
    types = sorted(item.type for item in listing_of("AWS::IAM::Role").find(cloud, SCOPE))
    assert types == (["AWS::IAM::ManagedPolicy", "AWS::IAM::Role"] if counts else [])


class Models:
    """SageMaker, whose ARNs contain names in lower case, and whose filter is case-sensitive."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.asked: list[str] = []

    def get_paginator(self, operation: str) -> Models:
        self.asked.append(operation)
        return self

    def paginate(self, NameContains: str = "") -> Iterator[dict[str, Any]]:  # noqa: N803  boto3's spelling
        for name in self._names:
            listed = {"ModelName": name, "ModelArn": model_arn(name)}
            yield {"Models": [listed] if NameContains in name else []}


def model_arn(name: str) -> str:
    return f"arn:aws:sagemaker:us-east-1:123456789012:model/{name.lower()}"


TOPIC_TEMPLATE = json.dumps(
    {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": f"{BASE}-alarms"}}}}
)
MAIL, TEAM = "a@example.com", "team@example.com"


@pytest.fixture
def subscribed(cloud, monkeypatch):
    """A stack's topic with two subscriptions as SNS lists them; moto has no pending confirmation."""
    sns, cloudformation = cloud.client("sns"), cloud.client("cloudformation")
    cloudformation.create_stack(StackName=MINE, TemplateBody=TOPIC_TEMPLATE)
    (topic,) = sns.list_topics()["Topics"]
    listed = [
        {**topic, "SubscriptionArn": arn, "Owner": "1", "Protocol": "email", "Endpoint": endpoint}
        for arn, endpoint in (("PendingConfirmation", MAIL), ("PendingConfirmation", TEAM))
    ]

    real = sns.get_paginator

    class Subscriptions:
        def paginate(self) -> list[dict[str, object]]:
            return [{"Subscriptions": listed}]

    def paginator(operation: str) -> object:
        return Subscriptions() if operation == "list_subscriptions" else real(operation)

    monkeypatch.setattr(sns, "get_paginator", paginator)
    services = ("cloudformation", "sns")
    monkeypatch.setattr(reports, "LISTINGS", [listing for listing in LISTINGS if listing.service in services])
    return cloud


def subscriptions(report: Report) -> list[Item]:
    return [item for item in report.items if item.type == "AWS::SNS::Subscription"]


def test_subscriptions_are_reported_with_the_stack_of_their_topic(subscribed):
    report = find_resources(subscribed, SCOPE)
    assert [(item.stack, item.pending) for item in subscriptions(report)] == [(MINE, False)] * 2
    first, second = (item.id for item in subscriptions(report))
    assert first.endswith(f"{BASE}-alarms PendingConfirmation {MAIL}")
    assert second.endswith(TEAM)


@pytest.mark.parametrize(
    ("arn", "orphans"), [("Deleted", 0), ("arn:aws:sns:us-east-1:123456789012:tritonstack-dev-alarms:1", 1)]
)
def test_deleted_subscriptions_are_pending_and_confirmed_ones_are_orphaned(subscribed, arn, orphans):
    (page,) = subscribed.client("sns").get_paginator("list_subscriptions").paginate()
    page["Subscriptions"][:] = [{**page["Subscriptions"][0], "SubscriptionArn": arn}]
    subscribed.client("cloudformation").delete_stack(StackName=MINE)
    report = find_resources(subscribed, SCOPE)
    assert (len(report.orphans), len(report.pending_deletion)) == (orphans, 1 - orphans)
