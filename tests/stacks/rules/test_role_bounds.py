"""The permissions boundary of every role of an environment: on by default, and sufficient for serving."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.delivery.permissions.iam import requested, within

ENVIRONMENTS = ["sample", "retaining", "every", "factory"]
KEY = "arn:aws:kms:{region}:123456789012:key/0a1b"
ADMINISTRATORS = [
    ("iam:CreateRole", "arn:aws:iam::123456789012:role/tritonstack-{name}-x"),
    ("iam:PutRolePolicy", "arn:aws:iam::123456789012:role/tritonstack-{name}-x"),
    ("iam:PassRole", "arn:aws:iam::123456789012:role/tritonstack-{name}-x"),
    ("iam:CreatePolicyVersion", "arn:aws:iam::123456789012:policy/tritonstack-{name}-boundary"),
    ("sts:AssumeRole", "arn:aws:iam::123456789012:role/cdk-hnb659fds-deploy-role-123456789012-{region}"),
    (
        "cloudformation:CreateStack",
        "arn:aws:cloudformation:{region}:123456789012:stack/tritonstack-{name}-x/1",
    ),
    ("sagemaker:DeleteEndpoint", "arn:aws:sagemaker:{region}:123456789012:endpoint/tritonstack-{name}-x"),
    ("s3:PutObject", "arn:aws:s3:::tritonstack-{name}2-artifacts-123456789012-{region}/models/x"),
    ("s3:DeleteObject", "arn:aws:s3:::tritonstack-{name}-artifacts-123456789012-{region}/models/x"),
    ("s3:PutObject", "arn:aws:s3:::cdk-hnb659fds-assets-123456789012-{region}/0a.json"),
    ("kms:Decrypt", KEY),
    ("kms:CreateGrant", KEY),
    ("ecr:PutImage", "arn:aws:ecr:{region}:123456789012:repository/another/serving"),
    ("logs:PutLogEvents", "arn:aws:logs:{region}:123456789012:log-group:/tritonstack-{name}2/builds"),
    ("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:{region}:123456789012:secret:other-abcdef"),
]
"""What an administrator's policy on a role of the environment would grant, and the boundary does not."""


def templates(assembly: Any) -> Iterator[dict[str, Any]]:
    for file in sorted(assembly.folder.glob("*.template.json")):
        yield json.loads(file.read_text())


def resources(assembly: Any, resource_type: str) -> list[dict[str, Any]]:
    return [
        item["Properties"]
        for template in templates(assembly)
        for item in template["Resources"].values()
        if item["Type"] == resource_type
    ]


def boundary_of(assembly: Any) -> dict[str, Any]:
    (policy,) = resources(assembly, "AWS::IAM::ManagedPolicy")
    return policy


@pytest.fixture
def assembly(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("assembly", ENVIRONMENTS, indirect=True)
def test_every_role_has_a_boundary_by_default(assembly):
    spec = assembly.workspace.spec
    assert spec.permissions_boundary is None
    roles = resources(assembly, "AWS::IAM::Role")
    assert roles
    assert {json.dumps(role["PermissionsBoundary"]) for role in roles} == {
        json.dumps(f"arn:aws:iam::{spec.account}:policy/{spec.base}-boundary")
    }
    assert boundary_of(assembly)["ManagedPolicyName"] == f"{spec.base}-boundary"


def test_a_custom_boundary_replaces_the_default(walled):
    assert resources(walled, "AWS::IAM::ManagedPolicy") == []
    boundaries = {json.dumps(role["PermissionsBoundary"]) for role in resources(walled, "AWS::IAM::Role")}
    assert len(boundaries) == 1
    assert "policy/teams/search-boundary" in boundaries.pop()


@pytest.mark.parametrize("assembly", ENVIRONMENTS, indirect=True)
def test_the_boundary_allows_what_the_roles_need(assembly):
    spec = assembly.workspace.spec
    place = {"region": spec.region, "account": spec.account, "base": spec.base}
    needed = [request for template in templates(assembly) for request in requested(template, place)]
    assert len(needed) > 10
    edge = boundary_of(assembly)["PolicyDocument"]["Statement"]
    assert sorted({request[:2] for request in needed if not within(edge, *request)}) == []


@pytest.mark.parametrize("assembly", ENVIRONMENTS, indirect=True)
@pytest.mark.parametrize(("action", "resource"), ADMINISTRATORS)
def test_administrator_policy_on_a_role_is_limited_by_the_boundary(assembly, action, resource):
    spec = assembly.workspace.spec
    edge = boundary_of(assembly)["PolicyDocument"]["Statement"]
    arn = resource.format(name=spec.name, region=spec.region)
    assert not within(edge, action, arn, {"aws:RequestedRegion": spec.region})
