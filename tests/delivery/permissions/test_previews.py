"""Previews change only what is theirs: their roles, boundary, keys, and bootstrap bucket."""

import json
import re
import shutil

import pytest

from stacks.delivery_target import delivery_target
from stacks.environment import add_environment
from tests.delivery.delivery_project import DEV, REGION
from tests.delivery.permissions.iam import may, requested, within
from tests.delivery.permissions.resources import (
    CDK,
    DEV_BUCKET,
    DEVS_KEY,
    EXECUTION,
    KEY,
    PREVIEW_ASSETS,
    PREVIEW_EXECUTION,
    PREVIEWS_KEY,
    arn,
    iam_role,
)
from tests.stacks.assemblies import new_app
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.project.loading import ProjectFiles, sample_instance


@pytest.mark.parametrize(("role", "allowed"), [(PREVIEW_EXECUTION, True), (EXECUTION, False)])
def test_previews_are_created_with_their_own_role_only(delivery_stacks, role, allowed):
    permitted = may(
        delivery_stacks["dev"],
        "tritonstack-delivery-dev-preview",
        "iam:PassRole",
        role,
        iam__PassedToService="cloudformation.amazonaws.com",
    )
    assert permitted is allowed


PREVIEW = {"region": REGION, "account": DEV, "base": "tritonstack-pr-7"}
PREVIEW_ROLE = iam_role("tritonstack-pr-7-endpoint-search-Role-1")


EDGE = f"arn:aws:iam::{DEV}:policy/tritonstack-delivery-dev-preview-boundary"


@pytest.mark.parametrize("action", ["CreateRole", "PutRolePolicy", "AttachRolePolicy"])
@pytest.mark.parametrize(
    ("role", "boundary", "allowed"),
    [
        (PREVIEW_ROLE, {"iam__PermissionsBoundary": EDGE}, True),
        (PREVIEW_ROLE, {"iam__PermissionsBoundary": EDGE.replace("preview-boundary", "boundary")}, False),
        (PREVIEW_ROLE, {}, False),
        (iam_role("tritonstack-dev-x"), {"iam__PermissionsBoundary": EDGE}, False),
    ],
)
def test_every_preview_role_has_a_boundary(delivery_stacks, action, role, boundary, allowed):
    made_with = "tritonstack-delivery-dev-preview-execution"
    assert may(delivery_stacks["dev"], made_with, f"iam:{action}", role, **boundary) is allowed


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("iam:CreateRole", iam_role("tritonstack-pr-7-x")),
        ("sts:AssumeRole", CDK),
        ("cloudformation:CreateStack", arn("cloudformation", "stack/tritonstack-pr-7-a/1")),
        ("s3:GetObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz"),
        ("s3:PutObject", f"{DEV_BUCKET}/events/1.json"),
        ("s3:PutObject", f"{PREVIEW_ASSETS}/0a1b.json"),
        ("s3:GetObject", f"arn:aws:s3:::cdk-hnb659fds-assets-{DEV}-{REGION}/0a1b.json"),
        ("ecr:PutImage", arn("ecr", "repository/tritonstack-dev/serving")),
        ("kms:Decrypt", KEY),
        ("kms:CreateGrant", KEY),
        ("sagemaker:DeleteEndpoint", arn("sagemaker", "endpoint/tritonstack-dev-search")),
        ("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:x")),
    ],
)
def test_administrator_policy_in_a_preview_is_limited_by_the_boundary(delivery_stacks, action, resource):
    assert not within(edge_of(delivery_stacks), action, resource, {"aws:RequestedRegion": REGION})


def test_the_preview_boundary_allows_what_its_roles_need(roads, delivery_stacks, tmp_path):
    """For every option of an environment: build jobs, a network, an asynchronous endpoint."""
    root = tmp_path / "project"
    shutil.copytree(roads.root, root, symlinks=True)
    file = Project(root).template_file("preview")
    more = "  bulk: {kind: ensemble, model: encoder, instance_type: ml.c7i.xlarge, asynchronous: {}}\n"
    file.write_text(file.read_text() + more + "network: {create: {}}\n")
    app = new_app(tmp_path / "out")
    add_environment(app, workspace=ProjectFiles(Project(root)).instance(sample_instance("preview", "pr-7")))
    app.synth()
    templates = [json.loads(file.read_text()) for file in (tmp_path / "out").glob("*.template.json")]
    requests = [request for template in templates for request in requested(template, PREVIEW)]
    assert len(requests) > 50
    edge = edge_of(delivery_stacks)
    assert [request[:2] for request in requests if not within(edge, *request)] == []


def edge_of(delivery_stacks):
    (policy,) = [
        item["Properties"]["PolicyDocument"]["Statement"]
        for item in delivery_stacks["dev"]["Resources"].values()
        if item["Properties"].get("ManagedPolicyName") == EDGE.rpartition("/")[2]
    ]
    return policy


@pytest.mark.parametrize(
    ("imports", "allowed"),
    [({}, True), ({"cloudformation__ImportResourceTypes": "AWS::KMS::Key"}, False)],
)
def test_a_preview_adopts_no_existing_resource(delivery_stacks, imports, allowed):
    """Otherwise it would be deleted with the preview: keys and models do not have the preview's name."""
    stack = arn("cloudformation", "stack/tritonstack-pr-7-a/1")
    role = "tritonstack-delivery-dev-preview"
    assert may(delivery_stacks["dev"], role, "cloudformation:CreateChangeSet", stack, **imports) is allowed


NEW_KEY = {key.replace("Resource", "Request"): text for key, text in PREVIEWS_KEY.items()}


@pytest.mark.parametrize(
    ("action", "context", "allowed"),
    [
        ("CreateKey", {}, True),
        ("EnableKeyRotation", {}, True),  # at once after it was made
        ("TagResource", NEW_KEY, True),  # while it is made
        ("TagResource", {**NEW_KEY, "aws:RequestTag/environment": "dev"}, False),
        ("TagResource", {**NEW_KEY, **DEVS_KEY}, False),  # so that dev's would be a preview's
        ("TagResource", {**NEW_KEY, "kms:ResourceAliases": "alias/somebodys"}, False),
        ("TagResource", PREVIEWS_KEY, True),
        *((action, PREVIEWS_KEY, True) for action in ("DisableKey", "PutKeyPolicy", "ScheduleKeyDeletion")),
        *((action, DEVS_KEY, False) for action in ("DisableKey", "PutKeyPolicy", "ScheduleKeyDeletion")),
        *((action, {}, False) for action in ("PutKeyPolicy", "ScheduleKeyDeletion", "UntagResource")),
        ("Decrypt", DEVS_KEY, False),
        ("CreateGrant", PREVIEWS_KEY, False),
        ("CreateGrant", {"kms:ViaService": f"ecr.{REGION}.amazonaws.com"}, True),
        ("CreateGrant", {"kms:ViaService": f"ec2.{REGION}.amazonaws.com"}, False),
        ("ReEncryptFrom", PREVIEWS_KEY, False),
    ],
)
def test_keys_of_other_environments_are_unchanged(delivery_stacks, action, context, allowed):
    role = "tritonstack-delivery-dev-preview-execution"
    resource = "*" if action == "CreateKey" else KEY
    assert may(delivery_stacks["dev"], role, f"kms:{action}", resource, **context) is allowed


@pytest.mark.parametrize(
    ("changed", "message"),
    [("permissions_boundary: ", "no permissions boundary"), ("bootstrap_qualifier: ", "bootstrap bucket")],
)
def test_previews_without_limits_of_their_own_are_not_delivered(roads, tmp_path, changed, message):
    shutil.copytree(roads.root, tmp_path, symlinks=True, dirs_exist_ok=True)
    project = Project(tmp_path)
    file = project.template_file("preview")
    file.write_text(re.sub(rf"^{changed}.*\n?", "", file.read_text(), flags=re.M))
    with pytest.raises(UsageError, match=message):
        delivery_target(project, "dev")
    delivery_target(project, "staging")
