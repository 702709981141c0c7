"""Which services can assume the roles of all stacks, and for which accounts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tritonstack.constructs.iam.service_role import NAMES_NO_SOURCE

TESTS = Path(__file__).parent.parent
TEMPLATES = sorted([*TESTS.glob("stacks/snapshots/*.json"), *TESTS.glob("delivery/snapshots/*.json")])


def trusts_of_services(template: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in template["Resources"].values():
        if item["Type"] == "AWS::IAM::Role":
            for statement in item["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
                if "Service" in statement["Principal"]:
                    yield statement["Principal"]["Service"], statement.get("Condition", {})


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_a_service_assumes_a_role_only_for_its_own_account(file):
    """Without the condition, a service could use the role on behalf of another account."""
    template = json.loads(file.read_text())
    for service, condition in trusts_of_services(template):
        if service in NAMES_NO_SOURCE:
            continue
        account = condition["StringEquals"]["aws:SourceAccount"]
        assert len(account) == 12
        assert account.isdecimal()


def test_every_service_is_among_the_templates():
    found = {service for file in TEMPLATES for service, _ in trusts_of_services(json.loads(file.read_text()))}
    assert found >= {"sagemaker.amazonaws.com", "codebuild.amazonaws.com", "vpc-flow-logs.amazonaws.com"}
    assert found >= NAMES_NO_SOURCE
