"""Which services can assume the roles of all stacks, and for which accounts."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.reviewed_templates import reviewed_templates
from tritonstack.constructs.iam.service_role import NAMES_NO_SOURCE

TEMPLATES = reviewed_templates()


def trusts_of_services(template: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in template["Resources"].values():
        if item["Type"] == "AWS::IAM::Role":
            for statement in item["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
                if "Service" in statement["Principal"]:
                    yield statement["Principal"]["Service"], statement.get("Condition", {})


@pytest.mark.parametrize("stack", TEMPLATES)
def test_a_service_assumes_a_role_only_for_its_own_account(stack):
    """Without the condition, a service could use the role on behalf of another account."""
    accounts = {
        service: condition.get("StringEquals", {}).get("aws:SourceAccount", "")
        for service, condition in trusts_of_services(TEMPLATES[stack])
        if service not in NAMES_NO_SOURCE
    }
    assert {name: text for name, text in accounts.items() if not re.fullmatch(r"[0-9]{12}", text)} == {}


def test_every_service_is_among_the_templates():
    found = {service for template in TEMPLATES.values() for service, _ in trusts_of_services(template)}
    assert found >= {"sagemaker.amazonaws.com", "codebuild.amazonaws.com", "vpc-flow-logs.amazonaws.com"}
    assert found >= NAMES_NO_SOURCE
