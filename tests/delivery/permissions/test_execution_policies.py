"""The execution policies for `cdk bootstrap`: they cover all templates, within IAM's limits."""

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from stacks.delivery import DeliveryStack, delivery_target
from tests.delivery.delivery_project import DEV, PROD
from tests.delivery.permissions.iam import listed, within
from tests.delivery.permissions.resources import executing
from tests.projects import edit
from tests.sample_templates import sample_templates
from tests.stacks.assemblies import new_app
from tritonstack.base import naming
from tritonstack.base.paths import Project
from tritonstack.facts.images import ACCOUNTS
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.validation import validate_project

REGION = "eu-west-1"

NOT_CALLED = {
    "lambda:*ProvisionedConcurrencyConfig": "targets are endpoints, never functions",
    "firehose:TagDeliveryStream": "log groups are of the standard class",
    "s3tables:*": "no bucket has a metadata table",
    "vpc-lattice:*": "endpoints in the network are of the types Gateway and Interface",
    "vpce:AllowMultiRegion": "endpoints in the network are of their own region",
    "ec2:CreateVpcEncryptionControl": "the network sets none",
    "ec2:ModifyVpcTenancy": "the network sets no tenancy",
    "ec2:*ssociateSubnetCidrBlock": "the network has no IPv6 addresses",
    "iam:*UserPolicy": "policies belong to roles",
    "iam:*GroupPolicy": "policies belong to roles",
    "iam:DeleteRolePermissionsBoundary": "a role that could lose its boundary would have none",
    "iam:CreatePolicy*": "an administrator makes the boundary, the one managed policy, and changes it",
    "iam:*achGroupPolicy": "a boundary is attached to nobody",
    "iam:*achUserPolicy": "a boundary is attached to nobody",
}
"""Actions of the handlers that our templates never lead to, and why."""
WITHOUT_HANDLERS = {"AWS::CodeBuild::Project"}
"""Types whose schemas list no permissions."""


def types_in_use() -> set[str]:
    """Return the resource types in the sample environments."""
    return {
        item["Type"] for template in sample_templates().values() for item in template["Resources"].values()
    }


def handler_actions(resource_type: str) -> set[str]:
    """Return the permissions that CloudFormation's resource schema lists for its handlers."""
    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, resource_type).schema.get("handlers", {})
    return {
        action for name, handler in handlers.items() if name != "list" for action in handler["permissions"]
    }


def covered(action: str, patterns: Any) -> bool:
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def actions(template: dict[str, Any], environment: str) -> set[str]:
    return {
        action for statement in executing(template, environment) for action in listed(statement["Action"])
    }


@pytest.mark.parametrize("resource_type", sorted(types_in_use() - WITHOUT_HANDLERS))
def test_cloudformation_has_the_permissions_of_its_handlers(delivery_stacks, resource_type):
    needed = handler_actions(resource_type)
    assert needed
    # prod has a network of its own, staging a boundary that its foundation makes.
    allowed = actions(delivery_stacks["prod"], "prod") | actions(delivery_stacks["staging"], "staging")
    assert sorted(action for action in needed if not covered(action, {*allowed, *NOT_CALLED})) == []


def test_every_exception_belongs_to_a_handler():
    called = {action for kind in types_in_use() for action in handler_actions(kind)}
    assert [pattern for pattern in NOT_CALLED if not any(covered(kind, [pattern]) for kind in called)] == []
    assert {kind for kind in types_in_use() if not handler_actions(kind)} == WITHOUT_HANDLERS


@pytest.mark.parametrize("environment", ["dev", "staging", "prod"])
def test_no_deploy_creates_a_role_without_its_boundary_or_changes_it(delivery_stacks, environment):
    """Otherwise, whoever can deploy could grant themselves any permission."""
    allowed = executing(delivery_stacks[environment], environment)
    account = PROD if environment == "prod" else DEV
    name = "team-boundary" if environment == "prod" else f"tritonstack-{environment}-boundary"
    boundary = f"arn:aws:iam::{account}:policy/{name}"
    role = f"arn:aws:iam::{account}:role/tritonstack-{environment}-endpoint-x"
    region = {"aws:RequestedRegion": REGION}
    for action in ("CreateRole", "PutRolePolicy", "AttachRolePolicy", "PutRolePermissionsBoundary"):
        bounded = {**region, "iam:PermissionsBoundary": boundary}
        assert within(allowed, f"iam:{action}", role, bounded)
        assert not within(allowed, f"iam:{action}", role, region)
        other = {**region, "iam:PermissionsBoundary": "arn:aws:iam::aws:policy/AdministratorAccess"}
        assert not within(allowed, f"iam:{action}", role, other)
    changes = ("CreatePolicy", "CreatePolicyVersion", "SetDefaultPolicyVersion")
    for action, resource in [
        ("DeleteRolePermissionsBoundary", role),
        *((change, boundary) for change in changes),
        ("DeletePolicy", "arn:aws:iam::111111111111:policy/another"),
    ]:
        assert not within(allowed, f"iam:{action}", resource, region)


def delivered(project: Project, folder: Path, name: str) -> dict[str, Any]:
    app = new_app(folder)
    target = delivery_target(project, name)
    DeliveryStack(app, target=target)
    app.synth()
    template: dict[str, Any] = json.loads((folder / f"{target.base}.template.json").read_text())
    return template


def longest(roads: Project, folder: Path, region: str, *, more: str = "") -> Project:
    """A project whose environment has the longest names that a region allows."""
    longest_base = naming.BUCKET_NAME_LIMIT - len(
        naming.artifact_bucket_name("", account="1" * 12, region=region)
    )
    prefix, name = "p" * (longest_base // 2), "n" * (longest_base - longest_base // 2 - 1)
    project = Project(folder)
    project.environments_dir.mkdir(parents=True)
    (folder / "models").symlink_to(roads.root / "models")
    text = roads.environment_file("dev").read_text()
    project.environment_file(name).write_text(
        text.replace("environment: dev", f"environment: {name}")
        .replace("name: dev", f"name: {name}\nname_prefix: {prefix}")
        .replace(REGION, region)
        .replace("team: search", f"team: search{more}")
        + f"permissions_boundary: {'b' * 128}\nnetwork: {{create: {{}}}}\n"
    )
    project.delivery_file.write_text(f"repository: example/tritonstack\nenvironments: [{{name: {name}}}]\n")
    return project


def violations(project: Project) -> list[str]:
    return [
        f"{violation.file.name}:{violation.line}: {violation.message} -- {violation.remedy}"
        for violation in validate_project(ProjectFiles(project))
    ]


def only_environment(project: Project) -> str:
    (file,) = project.environments_dir.glob("*.yaml")
    return file.stem


@pytest.mark.parametrize("region", [max(ACCOUNTS, key=len), min(ACCOUNTS, key=len)])
def test_policies_fit_at_the_longest_names(roads, tmp_path, region):
    project = longest(roads, tmp_path / "project", region)
    template = delivered(project, tmp_path / "out", only_environment(project))
    sizes = [
        len(json.dumps(item["Properties"]["PolicyDocument"], separators=(",", ":")))
        for item in template["Resources"].values()
        if item["Type"] == "AWS::IAM::ManagedPolicy"
    ]
    assert len(sizes) >= 3
    assert max(sizes) <= 6_144


def test_a_sixth_environment_of_one_bootstrap_is_rejected(roads, tmp_path):
    """IAM attaches ten policies to CloudFormation's role, and each environment has two."""
    project = Project(tmp_path)
    project.environments_dir.mkdir()
    (tmp_path / "models").symlink_to(roads.root / "models")
    names = [f"e{number}" for number in range(6)]
    for name in names:
        text = roads.environment_file("dev").read_text()
        project.environment_file(name).write_text(text.replace(": dev", f": {name}"))
    listed_names = "".join(f"  - name: {name}\n" for name in names)
    project.delivery_file.write_text(f"repository: example/tritonstack\nenvironments:\n{listed_names}")
    (violation,) = [message for message in violations(project) if "execution policies" in message]
    assert "delivery.yaml:8" in violation
    assert "12 execution policies" in violation
    assert "e5 a bootstrap_qualifier" in violation
    edit(project.environment_file("e5"), "name: e5\n", "name: e5\nbootstrap_qualifier: e5\n")
    assert [message for message in violations(project) if "execution policies" in message] == []
