"""The account of a caller: from access keys, presigned URLs, and assumed roles."""

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.credentials import keys_of
from tritonstack_local.signatures.keys import access_key_for, account_in_key, read_credential


def test_access_keys_contain_their_accounts():
    assert account_in_key(access_key_for("123456789012")) == "123456789012"
    assert account_in_key("AKIAIOSFODNN7EXAMPLE") is None
    assert account_in_key("test") is None


def test_credentials_are_read_from_headers_and_presigned_urls():
    scope = "AKIA/20260101/eu-west-1/s3/aws4_request"
    for headers, query in (
        ({"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host"}, ""),
        ({}, f"X-Amz-Credential={scope.replace('/', '%2F')}&X-Amz-Expires=1"),
    ):
        credential = read_credential(headers=headers, query=query)
        assert credential is not None
        assert (credential.access_key, credential.region, credential.service) == ("AKIA", "eu-west-1", "s3")
    assert read_credential(headers={}) is None


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
