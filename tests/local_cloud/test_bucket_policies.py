"""Bucket policies: TLS-only ones let this cloud's requests through, others are enforced or refused."""

import pytest
from botocore.exceptions import ClientError

from local_cloud.bucket_policies import UnsupportedPolicyError, check_policy, effective_policy

EVERYTHING = {"Action": "s3:*", "Resource": "*", "Principal": "*"}


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
    ],
)
def test_statements_that_concern_requests_of_this_cloud(statement, concerns):
    check_policy(policy(**statement))
    assert bool(effective_policy(policy(**statement))["Statement"]) is concerns


@pytest.mark.parametrize(
    "statement",
    [
        {"Condition": {"StringNotEquals": {"s3:x-amz-server-side-encryption": "aws:kms"}}},
        {"Condition": {"ArnLike": {"aws:SecureTransport": "false"}}},
        {"Principal": {"AWS": "arn:aws:iam::111122223333:role/x"}},
    ],
)
def test_a_denial_that_cannot_be_worked_out_is_refused(statement):
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
    with pytest.raises(ClientError, match="cannot evaluate") as refusal:
        s3.put_bucket_policy(Bucket="guarded-bucket", Policy=unknown)
    assert refusal.value.response["Error"]["Code"] == "NotImplemented"
