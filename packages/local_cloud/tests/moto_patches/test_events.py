"""EventBridge rules send matching events to their targets."""

import json
import time

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.conftest import TRUST_ANYONE
from tests.credentials import secret_of
from tritonstack_local.moto_patches.events import target_input
from tritonstack_local.sagemaker.hosting.status import (
    endpoint_detail,
    event_status,
    send_event,
)
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients

PATTERN = {
    "source": ["aws.sagemaker"],
    "detail-type": ["SageMaker Endpoint State Change"],
    "detail": {"EndpointName": [{"prefix": "shop-"}], "EndpointStatus": ["FAILED"]},
}
TRANSFORMER = {
    "InputPathsMap": {"endpoint": "$.detail.EndpointName", "region": "$.region", "none": "$.detail.x.y"},
    "InputTemplate": '"<endpoint> in <region> failed<none>"',
}


@pytest.fixture
def topic(account):
    return account.client("sns").create_topic(Name="failures")["TopicArn"]


def put_rule(account, **target):
    events = account.client("events")
    events.put_rule(Name="r", EventPattern=json.dumps(PATTERN))
    events.put_targets(Rule="r", Targets=[{"Id": "t", **target}])


def listen(account, topic):
    sqs = account.client("sqs")
    url = sqs.create_queue(QueueName="heard")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    account.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def heard():
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
            if found:
                return [json.loads(message["Body"])["Message"] for message in found]
            time.sleep(0.02)
        raise AssertionError("nothing was told")

    return heard


def change(account, name, status):
    scope = Scope(account.account_id, account.region)
    detail = {
        "EndpointName": name,
        "EndpointArn": scope.arn("sagemaker", f"endpoint/{name}"),
        "EndpointStatus": event_status(status),
    }
    send_event(
        Clients(endpoint_url=account.endpoint_url, secret=secret_of(account.endpoint_url)), scope, detail
    )


def test_a_rule_notifies_its_topic_of_matching_endpoints(account, topic):
    heard = listen(account, topic)
    put_rule(account, Arn=topic, InputTransformer=TRANSFORMER)
    change(account, "other-one", "Failed")
    change(account, "shop-one", "InService")
    change(account, "shop-two", "Failed")
    assert heard() == ['"shop-two in eu-west-1 failed"']


def test_a_failed_endpoint_sends_an_event(account, topic):
    heard = listen(account, topic)
    put_rule(account, Arn=topic)
    sagemaker = account.client("sagemaker")
    image = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tritonserver:24.09-py3"
    sagemaker.create_model(
        ModelName="m",
        PrimaryContainer={"Image": image, "Environment": {"FAKE_STARTS": "no"}},
        ExecutionRoleArn=f"arn:aws:iam::{account.account_id}:role/r",
    )
    variant = {
        "VariantName": "main",
        "ModelName": "m",
        "InstanceType": "ml.c5.large",
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    tags = [{"Key": "team", "Value": "a"}]
    sagemaker.create_endpoint(EndpointName="shop-three", EndpointConfigName="c", Tags=tags)
    (message,) = heard()
    detail = json.loads(message)["detail"]
    assert detail["EndpointStatus"] == "FAILED"
    assert "no such tensor" in detail["FailureReason"]
    assert detail["Tags"] == {"team": "a"}
    sagemaker.delete_endpoint(EndpointName="shop-three")


def test_a_rule_starts_a_build(account):
    role = account.client("iam").create_role(RoleName="build", AssumeRolePolicyDocument=TRUST_ANYONE)["Role"]
    codebuild = account.client("codebuild")
    project = codebuild.create_project(
        name="reap",
        source={"type": "NO_SOURCE", "buildspec": "version: 0.2\nphases: {build: {commands: [ls]}}"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "computeType": "BUILD_GENERAL1_SMALL", "image": "any"},
        serviceRole=role["Arn"],
    )["project"]
    put_rule(account, Arn=project["arn"])
    change(account, "shop-one", "Failed")
    deadline = time.monotonic() + 10
    while not (ids := codebuild.list_builds_for_project(projectName="reap")["ids"]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    codebuild.stop_build(id=ids[0])


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ({"Arn": "arn:aws:lambda:eu-west-1:111122223333:function:f"}, "lambda"),
        ({"Arn": "arn:aws:sns:eu-west-1:111122223333:t", "Input": "fixed"}, "Input"),
        ({"Arn": "arn:aws:sns:eu-west-1:111122223333:t", "InputPath": "$.detail"}, "InputPath"),
        (
            {
                "Arn": "arn:aws:codebuild:eu-west-1:111122223333:project/p",
                "InputTransformer": {"InputTemplate": '{"sourceVersion": "v"}'},
            },
            "InputTransformer",
        ),
    ],
)
def test_unsupported_targets_are_rejected(account, target, named):
    with pytest.raises(ClientError, match=f"support (targets of )?{named} in PutTargets"):
        put_rule(account, **target)


def test_target_input():
    event = {"detail": {"name": "n", "size": 3}, "region": "r"}
    transformer = {"InputPathsMap": {"a": "$.detail.size"}, "InputTemplate": '{"size": <a>}'}
    assert target_input({"InputTransformer": transformer}, event) == '{"size": 3}'
    assert json.loads(target_input({}, event)) == event


def test_an_endpoint_event_matches_describe_endpoint():
    described = {
        "EndpointName": "shop",
        "EndpointArn": "arn:aws:sagemaker:eu-west-1:111122223333:endpoint/shop",
        "EndpointConfigName": "one",
        "EndpointStatus": "InService",
        "ProductionVariants": [{"VariantName": "main"}],
        "CreationTime": 1_592_411_992.203,
        "LastModifiedTime": 1_592_411_994.287,
    }
    detail = endpoint_detail(described, tags={"team": "a"})
    assert detail == described | {
        "EndpointStatus": "IN_SERVICE",
        "CreationTime": 1_592_411_992_203,
        "LastModifiedTime": 1_592_411_994_287,
        "Tags": {"team": "a"},
    }
