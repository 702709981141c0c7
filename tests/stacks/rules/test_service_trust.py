"""Rules over the template of every sample environment and delivery stack."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sample_templates import (
    SAMPLES,
    delivery_templates,
    sample_assembly,
    sample_template,
    sample_templates,
)
from tritonstack.constructs.iam.granted_role import NAMES_NO_SOURCE

STATEFUL = {"AWS::S3::Bucket", "AWS::KMS::Key", "AWS::Logs::LogGroup", "AWS::ECR::Repository"}


@pytest.fixture(scope="module")
def templates() -> dict[str, dict[str, Any]]:
    delivery = {f"delivery-{name}": template for name, template in delivery_templates().items()}
    return sample_templates() | delivery


def trusts_of_services(template: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in template["Resources"].values():
        if item["Type"] == "AWS::IAM::Role":
            for statement in item["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
                if "Service" in statement["Principal"]:
                    yield statement["Principal"]["Service"], statement.get("Condition", {})


def test_a_service_assumes_a_role_only_for_its_own_account(templates):
    """Without the condition, a service could use the role on behalf of another account."""
    trusts = [(stack, *trust) for stack, item in templates.items() for trust in trusts_of_services(item)]
    services = {service for _, service, _ in trusts}
    assert services >= {"sagemaker.amazonaws.com", "codebuild.amazonaws.com", "vpc-flow-logs.amazonaws.com"}
    assert services >= NAMES_NO_SOURCE
    accounts = {
        (stack, service): condition.get("StringEquals", {}).get("aws:SourceAccount", "")
        for stack, service, condition in trusts
        if service not in NAMES_NO_SOURCE
    }
    assert {key: text for key, text in accounts.items() if not re.fullmatch(r"[0-9]{12}", text)} == {}


@pytest.mark.parametrize("environment", SAMPLES)
def test_stateful_resources_are_retained_as_the_environment_says(environment):
    """What a failed creation leaves is empty and deleted even where data is retained."""
    assembly = sample_assembly(environment)
    retained = assembly.workspace.spec.removal == "retain"
    resources = [item for stack in assembly.stacks for item in sample_template(stack)["Resources"].values()]
    policies = {
        (item["Type"], item.get("DeletionPolicy"), item.get("UpdateReplacePolicy"))
        for item in resources
        if item["Type"] in STATEFUL
    }
    expected = ("RetainExceptOnCreate", "Retain") if retained else ("Delete", "Delete")
    assert {pair[1:] for pair in policies} == {expected}
    assert {kind for kind, *_ in policies} >= {"AWS::S3::Bucket", "AWS::KMS::Key", "AWS::Logs::LogGroup"}
    assert not retained or not any(item.get("Properties", {}).get("EmptyOnDelete") for item in resources)
