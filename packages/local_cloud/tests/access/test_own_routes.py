"""The inventory route, and requests that no service implements."""

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, resource


def test_unimplemented_services_are_rejected_immediately(account):
    for service, call in (
        ("cloudtrail", "lookup_events"),
        ("cloudwatch", "list_metric_streams"),
        ("devicefarm", "list_projects"),  # a service that moto does not have at all
    ):
        with pytest.raises(ClientError, match="not been implemented") as caught:
            getattr(account.client(service), call)()
        assert caught.value.response["Error"]["Code"] == "UnknownOperationException"


def test_the_inventory_lists_what_exists_and_nothing_else(account):
    assert account.inventory() == []
    stack = StackDriver(account)
    stack.create(
        {
            "Key": resource("AWS::KMS::Key"),
            "Alias": resource("AWS::KMS::Alias", AliasName="alias/mine", TargetKeyId={"Ref": "Key"}),
            "Store": resource("AWS::S3::Bucket", BucketName="inventoried"),
            "Role": resource("AWS::IAM::Role", AssumeRolePolicyDocument={"Statement": []}, RoleName="r"),
            "Group": resource("AWS::Logs::LogGroup", LogGroupName="g"),
            "Filter": resource(
                "AWS::Logs::MetricFilter",
                LogGroupName={"Ref": "Group"},
                FilterName="f",
                FilterPattern="",
                MetricTransformations=[{"MetricName": "m", "MetricNamespace": "n", "MetricValue": "1"}],
            ),
        }
    )
    account.client("sqs").create_queue(QueueName="made-by-hand")
    found = {(item["service"], item["type"], item["id"]) for item in account.inventory()}
    key = stack.physical_ids()["Key"]
    assert found == {
        ("cloudformation", "Stack", "stack"),
        ("kms", "Key", key),
        ("kms", "Alias", "alias/mine"),
        ("s3", "Bucket", "inventoried"),
        ("iam", "Role", "r"),
        ("logs", "LogGroup", "g"),
        ("logs", "MetricFilter", "f"),
        ("sqs", "Queue", "made-by-hand"),
    }
    assert stack.delete() == "DELETE_COMPLETE"
    queue = account.client("sqs").get_queue_url(QueueName="made-by-hand")["QueueUrl"]
    account.client("sqs").delete_queue(QueueUrl=queue)
    assert account.inventory() == [
        {
            "service": "kms",
            "type": "Key",
            "id": key,
            "account": account.account_id,
            "region": "eu-west-1",
            "pending_deletion": True,
        }
    ]
