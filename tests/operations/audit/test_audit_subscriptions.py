"""Unconfirmed subscriptions: SNS lists them with the same ARN, cannot delete them, and drops them later."""

import json

import pytest

from tests.operations.audit.test_audit import BASE, MINE, SCOPE
from tritonstack.operations.audit import report as reports
from tritonstack.operations.audit.listings import LISTINGS
from tritonstack.operations.audit.report import Item, Report, audit

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
    report = audit(subscribed, SCOPE)
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
    report = audit(subscribed, SCOPE)
    assert (len(report.orphans), len(report.pending_deletion)) == (orphans, 1 - orphans)
