"""Bucket policies are enforced; unsupported ones are rejected."""

import json

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.conftest import Account
from tritonstack_local.access.bucket_policies import (
    UnsupportedPolicyError,
    check_policy,
    effective_policy,
    request_context,
)

EVERYTHING = {"Action": "s3:*", "Resource": "*", "Principal": "*"}
ACCOUNT = "111122223333"
SSE = "x-amz-server-side-encryption"


def unless(condition):
    return {"Effect": "Deny", "Condition": condition}


def policy(**statement):
    return {"Version": "2012-10-17", "Statement": [{**EVERYTHING, **statement}]}


@pytest.mark.parametrize(
    ("statement", "concerns"),
    [
        ({"Effect": "Deny"}, True),
        ({"Effect": "Deny", "Principal": {"AWS": "*"}}, True),
        ({"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}, False),
        ({"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": True}}}, True),
        ({"Effect": "Deny", "Condition": {"NumericLessThan": {"s3:TlsVersion": 1.2}}}, False),
        ({"Effect": "Allow", "Principal": {"Service": "logging.s3.amazonaws.com"}}, False),
        ({"Effect": "Allow", "Condition": {"StringEquals": {"aws:SourceAccount": "1"}}}, False),
        (unless({"StringNotEquals": {"aws:PrincipalAccount": ACCOUNT}}), False),
        (unless({"StringNotEquals": {"aws:PrincipalAccount": ["1", ACCOUNT]}}), False),
        (unless({"StringNotEquals": {"aws:PrincipalAccount": "1"}}), True),
        (unless({"Bool": {"aws:PrincipalIsAWSService": "false"}}), True),
        (unless({"Null": {f"s3:{SSE}": "false"}, "StringNotEquals": {f"s3:{SSE}": "aws:kms"}}), False),
        (unless({"Null": {f"s3:{SSE}": "true"}}), False),
        (unless({"Null": {f"s3:{SSE}-aws-kms-key-id": "true"}}), True),
        (unless({"StringNotEquals": {f"s3:{SSE}-aws-kms-key-id": "key"}}), True),
        (unless({"StringEquals": {f"s3:{SSE}-aws-kms-key-id": "key"}}), False),
    ],
)
def test_statements_that_apply_to_a_request(statement, concerns):
    check_policy(policy(**statement))
    context = request_context(account=ACCOUNT, headers={SSE: "aws:kms"})
    assert bool(effective_policy(policy(**statement), context)["Statement"]) is concerns


def test_an_anonymous_caller_has_no_account():
    only_mine = policy(**unless({"StringNotEquals": {"aws:PrincipalAccount": ACCOUNT}}))
    assert effective_policy(only_mine, request_context(account=None, headers={}))["Statement"]


@pytest.mark.parametrize(
    "statement",
    [
        {"Condition": {"StringNotEquals": {"aws:PrincipalOrgID": "o-1"}}},
        {"Condition": {"ArnLike": {"aws:SecureTransport": "false"}}},
        {"Principal": {"AWS": "arn:aws:iam::111122223333:role/x"}},
    ],
)
def test_an_unsupported_deny_statement_is_rejected(statement):
    with pytest.raises(UnsupportedPolicyError, match="bucket policy statement"):
        check_policy(policy(Effect="Deny", **statement))


def test_policies_are_enforced_by_s3(account):
    s3 = account.client("s3")
    s3.create_bucket(Bucket="guarded-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    tls_only = '{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]}'  # noqa: E501
    s3.put_bucket_policy(Bucket="guarded-bucket", Policy=tls_only)
    s3.put_object(Bucket="guarded-bucket", Key="a", Body=b"1")
    assert s3.get_object(Bucket="guarded-bucket", Key="a")["Body"].read() == b"1"

    closed = tls_only.replace('"false"', '"true"')
    s3.put_bucket_policy(Bucket="guarded-bucket", Policy=closed)
    with pytest.raises(ClientError, match="403"):
        s3.get_object(Bucket="guarded-bucket", Key="a")

    unknown = tls_only.replace("aws:SecureTransport", "aws:MultiFactorAuthPresent")
    with pytest.raises(ClientError, match="cannot evaluate") as caught:
        s3.put_bucket_policy(Bucket="guarded-bucket", Policy=unknown)
    assert caught.value.response["Error"]["Code"] == "NotImplemented"


def test_bucket_policies_deny_other_accounts_and_kms_keys(running_cloud, account):
    s3, other = account.client("s3"), Account(running_cloud.endpoint_url).client("s3")
    s3.create_bucket(Bucket="walled-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_object(Bucket="walled-bucket", Key="a", Body=b"1")
    conditions = [
        {"StringNotEquals": {"aws:PrincipalAccount": account.account_id}},
        {"StringEquals": {f"s3:{SSE}": "aws:kms"}, "StringNotEquals": {f"s3:{SSE}-aws-kms-key-id": "mine"}},
    ]
    statements = [policy(**unless(condition))["Statement"][0] for condition in conditions]
    wall = json.dumps({"Version": "2012-10-17", "Statement": statements})
    s3.put_bucket_policy(Bucket="walled-bucket", Policy=wall)
    assert s3.get_object(Bucket="walled-bucket", Key="a")["Body"].read() == b"1"
    for call in (other.get_object, other.head_object, other.delete_object):
        with pytest.raises(ClientError, match=r"403|AccessDenied"):
            call(Bucket="walled-bucket", Key="a")
    encrypted = {"Bucket": "walled-bucket", "Key": "b", "ServerSideEncryption": "aws:kms"}
    s3.put_object(**encrypted, SSEKMSKeyId="mine")
    for call in (s3.put_object, s3.create_multipart_upload):
        with pytest.raises(ClientError, match="403"):
            call(**encrypted, SSEKMSKeyId="other")
