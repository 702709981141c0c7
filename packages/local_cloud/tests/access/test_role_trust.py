"""Which trust policies let a principal of another account assume a role."""

import pytest

from tritonstack_local.access.accounts import trusts

CALLER = "arn:aws:iam::111122223333:role/builds"
SOURCE_IDENTITY = {"StringEquals": {"sts:SourceIdentity": "ann"}}
"""A condition that is not supported."""


def allow(**fields):
    return {"Effect": "Allow", "Principal": {"AWS": CALLER}, "Action": "sts:AssumeRole", **fields}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([allow()], True),
        ([allow(Principal="*")], True),
        ([allow(Principal={"AWS": ["arn:aws:iam::111122223333:root"]})], True),
        ([allow(Principal={"AWS": "arn:aws:iam::444455556666:root"})], False),
        ([allow(Principal={"Service": "sagemaker.amazonaws.com"})], False),
        ([allow(Action="sts:*")], True),
        ([allow(Action="sts:TagSession")], False),
        ([allow(Condition={"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/b?ilds"}})], True),
        ([allow(Condition={"StringEquals": {"aws:PrincipalAccount": "444455556666"}})], False),
        ([allow(Condition=SOURCE_IDENTITY)], False),
        ([allow(), allow(Effect="Deny")], False),
        ([allow(), allow(Effect="Deny", Condition=SOURCE_IDENTITY)], False),
        ([allow(), allow(Effect="Deny", Condition={"ArnEquals": {"aws:PrincipalArn": "arn:x"}})], True),
        ([], False),
    ],
)
def test_trust_policies(statements, expected):
    assert trusts({"Statement": statements}, CALLER) is expected
