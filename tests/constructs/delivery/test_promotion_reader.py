"""The role that other accounts promote with: who can assume it, and what it can read."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tritonstack.base.paths import Project
from tritonstack.constructs.delivery.promotion_reader import PromotionReader
from tritonstack.project.loading import load_workspace

KEY = "arn:aws:kms:eu-west-1:111111111111:key/1"


@pytest.fixture
def resources(project: Project) -> dict[str, dict[str, Any]]:
    spec = load_workspace(project, "dev").spec
    stack = cdk.Stack(cdk.App(), "s", env=cdk.Environment(account=spec.account, region=spec.region))
    PromotionReader(stack, "P", environment=spec, key_arn=KEY, accounts=["3" * 12, "2" * 12, "2" * 12])
    template: dict[str, Any] = Template.from_stack(stack).to_json()
    return {item["Type"]: item["Properties"] for item in template["Resources"].values()}


def test_only_promoting_accounts_can_assume_the_reader(resources):
    role = resources["AWS::IAM::Role"]
    assert role["RoleName"] == "tritonstack-delivery-dev-promotion-reader"
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    trusted = [str(arn) for arn in statement["Principal"]["AWS"]]
    assert ["2" * 12 in arn for arn in trusted] == [True, False]
    assert ["3" * 12 in arn for arn in trusted] == [False, True]


def test_promotion_reader_has_only_read_permissions(resources):
    statements = resources["AWS::IAM::Policy"]["PolicyDocument"]["Statement"]
    actions = {action for statement in statements for action in _listed(statement["Action"])}
    assert actions == {
        "ecr:BatchGetImage",
        "ecr:DescribeImages",
        "ecr:GetDownloadUrlForLayer",
        "kms:Decrypt",
        "s3:GetObject",
        "s3:ListBucket",
    }
    for statement in statements:
        if "kms:Decrypt" in _listed(statement["Action"]):
            assert "kms:ViaService" in statement["Condition"]["StringEquals"]


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
