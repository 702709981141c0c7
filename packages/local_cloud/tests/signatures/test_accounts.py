"""The account of a caller: from access keys, presigned URLs, and assumed roles."""

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.credentials import keys_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("111122223333", "111122223333"),
        ("444455556666", "444455556666"),
    ],
)
def test_all_services_resolve_the_same_caller(running_cloud, key, expected):
    session = boto3.Session(**keys_of(running_cloud.endpoint_url, key), region_name="eu-west-1")
    sts = session.client("sts", endpoint_url=running_cloud.endpoint_url)
    assert sts.get_caller_identity()["Account"] == expected
    topic = session.client("sns", endpoint_url=running_cloud.endpoint_url).create_topic(Name="t")["TopicArn"]
    assert f":{expected}:" in topic


@pytest.mark.parametrize("owner", ["111122223333", "000000000001"])
def test_a_missing_role_cannot_be_assumed(running_cloud, owner):
    role = f"arn:aws:iam::{owner}:role/reader"
    keys = keys_of(running_cloud.endpoint_url, "111122223333")
    sts = boto3.Session(**keys, region_name="eu-west-1").client(
        "sts", endpoint_url=running_cloud.endpoint_url
    )
    with pytest.raises(ClientError, match=f": sts:AssumeRole .* {role}"):
        sts.assume_role(RoleArn=role, RoleSessionName="session")
