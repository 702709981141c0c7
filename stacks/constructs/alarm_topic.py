"""The topic that every alarm of an environment goes to."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from catalog import naming
from catalog.environments import EnvironmentSpec


class AlarmTopic(Construct):
    """An encrypted topic that this environment's alarms publish to and its e-mail addresses hear."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentSpec,
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(
            self,
            "Topic",
            topic_name=naming.alarm_topic_name(environment.base),
            master_key=key,
            enforce_ssl=True,
        )
        alarms = f"arn:aws:cloudwatch:{environment.region}:{environment.account}:alarm:{environment.base}-*"
        # The TLS rule replaces SNS's own policy, which let alarms of the account in; this lets them in again.
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsPublish",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={"ArnLike": {"aws:SourceArn": alarms}},
            )
        )
        for address in environment.alarm_emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
