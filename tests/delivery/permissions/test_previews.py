"""Previews change only what is theirs: their roles, boundary, keys, and bootstrap bucket."""

import json
import re
import shutil

import pytest

from stacks.delivery import delivery_target
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
from tritonstack.files.loading import ProjectFiles, sample_instance

PREVIEW = {"region": REGION, "account": DEV, "base": "tritonstack-pr-7"}
PREVIEW_ROLE = iam_role("tritonstack-pr-7-endpoint-search-Role-1")


EDGE = f"arn:aws:iam::{DEV}:policy/tritonstack-delivery-dev-preview-boundary"


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


IMPORTS = {"cloudformation:ImportResourceTypes": "AWS::KMS::Key"}
NEW_KEY = {key.replace("Resource", "Request"): text for key, text in PREVIEWS_KEY.items()}


STACK = arn("cloudformation", "stack/tritonstack-pr-7-a/1")
PASSED = {"iam:PassedToService": "cloudformation.amazonaws.com"}


def bounded(policy):
    return {"iam:PermissionsBoundary": policy}


@pytest.mark.parametrize(
    ("duty", "action", "resource", "keys", "allowed"),
    [
        # Previews are created with their own role only.
        ("preview", "iam:PassRole", PREVIEW_EXECUTION, PASSED, True),
        ("preview", "iam:PassRole", EXECUTION, PASSED, False),
        # An adopted resource would be deleted with the preview: keys and models do not have its name.
        ("preview", "cloudformation:CreateChangeSet", STACK, {}, True),
        ("preview", "cloudformation:CreateChangeSet", STACK, IMPORTS, False),
        # Every role of a preview has a boundary.
        *(
            ("preview-execution", f"iam:{action}", role, keys, allowed)
            for action in ("CreateRole", "PutRolePolicy", "AttachRolePolicy")
            for role, keys, allowed in (
                (PREVIEW_ROLE, bounded(EDGE), True),
                (PREVIEW_ROLE, bounded(EDGE.replace("preview-boundary", "boundary")), False),
                (PREVIEW_ROLE, {}, False),
                (iam_role("tritonstack-dev-x"), bounded(EDGE), False),
            )
        ),
        # Keys of other environments stay as they are.
        ("preview-execution", "kms:CreateKey", "*", {}, True),
        *(
            ("preview-execution", f"kms:{action}", KEY, keys, allowed)
            for action, keys, allowed in (
                ("EnableKeyRotation", {}, True),  # at once after it was made
                ("TagResource", NEW_KEY, True),  # while it is made
                ("TagResource", {**NEW_KEY, "aws:RequestTag/environment": "dev"}, False),
                ("TagResource", {**NEW_KEY, **DEVS_KEY}, False),  # so that dev's would be a preview's
                ("TagResource", {**NEW_KEY, "kms:ResourceAliases": "alias/somebodys"}, False),
                ("TagResource", PREVIEWS_KEY, True),
                *(
                    (name, PREVIEWS_KEY, True)
                    for name in ("DisableKey", "PutKeyPolicy", "ScheduleKeyDeletion")
                ),
                *((name, DEVS_KEY, False) for name in ("DisableKey", "PutKeyPolicy", "ScheduleKeyDeletion")),
                *((name, {}, False) for name in ("PutKeyPolicy", "ScheduleKeyDeletion", "UntagResource")),
                ("Decrypt", DEVS_KEY, False),
                ("CreateGrant", PREVIEWS_KEY, False),
                ("CreateGrant", {"kms:ViaService": f"ecr.{REGION}.amazonaws.com"}, True),
                ("CreateGrant", {"kms:ViaService": f"ec2.{REGION}.amazonaws.com"}, False),
                ("ReEncryptFrom", PREVIEWS_KEY, False),
            )
        ),
    ],
)
def test_previews_change_only_what_is_theirs(delivery_stacks, duty, action, resource, keys, allowed):
    role = f"tritonstack-delivery-dev-{duty}"
    assert may(delivery_stacks["dev"], role, action, resource, **keys) is allowed


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
