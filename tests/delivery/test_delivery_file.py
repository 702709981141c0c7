"""`delivery.yaml`: valid values, and errors with file and line."""

import pytest
import yaml

from tests.projects import ENVIRONMENT, edit
from tests.stacks.assemblies import ROOT
from tritonstack.base.paths import Project
from tritonstack.files.environment.delivery import DeliverySpec, require_delivery
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.names import environment_names
from tritonstack.files.validation import validate_project

DELIVERY = """\
repository: example/tritonstack
environments:
  - name: dev
  - name: prod
    approval: true
"""


@pytest.fixture
def delivered(project: Project) -> Project:
    """A project with two environments and a delivery file."""
    prod = ENVIRONMENT.replace("name: dev", "name: prod") + "promotion: {source: dev}\n"
    project.environment_file("prod").write_text(prod)
    project.template_file("preview").write_text(
        ENVIRONMENT.replace("name: dev", "name: ${name}")
        + "template: {locks: dev, purpose: a preview}\nremoval: destroy\n"
        + "permissions_boundary: tritonstack-delivery-dev-preview-boundary\nbootstrap_qualifier: preview\n"
    )
    project.delivery_file.write_text(DELIVERY)
    return project


def violations(project: Project) -> list[str]:
    return [
        f"{file_violation.file.name}:{file_violation.line}: {file_violation.field}: {file_violation.message}"
        for file_violation in validate_project(ProjectFiles(project))
    ]


def test_delivery_file_of_the_repository_is_valid():
    project = Project(ROOT)
    delivery = require_delivery(project).record
    assert set(delivery.names) <= set(environment_names(project))
    assert delivery.names == ("dev", "prod")
    assert [item.approval for item in delivery.environments] == [False, True]


@pytest.mark.parametrize(
    ("changes", "violation"),
    [
        ({"repository": "https://github.com/example/tritonstack"}, "1: repository: invalid GitHub"),
        ({"repository": "example/*"}, "1: repository: invalid GitHub repository 'example/*'"),
        ({"branch": "refs/*"}, "6: branch: invalid branch name 'refs/*'"),
        ({"environments": [{"name": "dev"}, {"name": "pord"}]}, "4: environments.1.name: unknown"),
        ({"environments": [{"name": "prod"}, {"name": "dev"}]}, "3: environments.0.name: prod is promoted"),
        ({"environments": [{"name": "dev"}, {"name": "dev"}]}, "4: environments.1.name: duplicate"),
        ({"previews": {"template": "preview", "environment": "stage"}}, "8: previews.environment: 'stage'"),
        (
            {"previews": {"template": "preview", "environment": "dev", "name_prefix": "prod"}},
            "9: previews.name_prefix: environment 'prod' is named like a preview, and previews may be "
            "deleted",
        ),
        (
            {"previews": {"template": "preview", "environment": "dev", "ttl": "soon"}},
            "9: previews.ttl: invalid duration 'soon'",
        ),
        ({"previews": {"template": "review", "environment": "dev"}}, "7: previews.template: unknown"),
        ({"pipeline": {"account": "333333333333", "region": "eu-west-1"}}, "6: pipeline: expected exactly"),
        (
            {"pipeline": {"account": "333333333333", "region": "eu-west-1", "connection": "arn:aws:x"}},
            "9: pipeline.connection: invalid connection ARN 'arn:aws:x'",
        ),
    ],
)
def test_each_violation_is_reported_with_its_line(delivered, changes, violation):
    data = {**yaml.safe_load(DELIVERY), **changes}
    delivered.delivery_file.write_text(yaml.safe_dump(data, sort_keys=False))
    assert any(violation in text for text in violations(delivered)), violations(delivered)


def test_an_environment_is_not_named_like_a_delivery_role(delivered):
    other = ENVIRONMENT.replace("name: dev", "name: delivery-dev")
    delivered.environment_file("delivery-dev").write_text(other)
    edit(delivered.delivery_file, "  - name: prod\n    approval: true", "  - name: delivery-dev")
    (violation,) = violations(delivered)
    assert violation.startswith("delivery.yaml:4: environments.1.name: ")


BUCKET = "cdk-hnb659fds-assets-111111111111-eu-west-1, which deploys of"


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"111111111111": "222222222222"}, "environment", "'222222222222', but dev has '111111111111'"),
        ({"permissions_boundary": "# permissions_boundary"}, "template", "no permissions_boundary"),
        ({"bootstrap_qualifier: preview\n": ""}, "template", f"{BUCKET} dev, prod take"),
        # prod is in dev's account, and uses the bucket of the CDK's default qualifier.
        ({"bootstrap_qualifier: preview\n": "", "dev": "qualified"}, "template", f"{BUCKET} prod take"),
    ],
    ids=["account", "boundary", "bucket of both", "bucket of prod"],
)
def test_previews_are_limited_and_publish_separately(delivered, changes, field, words):
    if changes.pop("dev", None):
        edit(delivered.environment_file("dev"), "endpoints:", "bootstrap_qualifier: dev\nendpoints:")
    for old, new in changes.items():
        edit(delivered.template_file("preview"), old, new)
    text = delivered.delivery_file.read_text() + "previews: {template: preview, environment: dev}\n"
    delivered.delivery_file.write_text(text)
    (violation,) = violations(delivered)
    assert violation.startswith(f"delivery.yaml:6: previews.{field}: ")
    assert words in violation


def test_subjects_are_those_of_githubs_tokens():
    spec = DeliverySpec.model_validate_json(
        '{"repository": "example/tritonstack", "branch": "trunk", "environments": [{"name": "dev"}]}'
    )
    assert spec.branch_subject == "repo:example/tritonstack:ref:refs/heads/trunk"
    assert spec.pull_request_subject == "repo:example/tritonstack:pull_request"
    assert spec.environment_subject("dev") == "repo:example/tritonstack:environment:dev"


def test_subjects_of_newer_repositories_contain_github_ids():
    spec = DeliverySpec.model_validate_json(
        '{"repository": "example/tritonstack", "repository_ids": {"owner": "123456", "repository": "789012"},'
        ' "environments": [{"name": "dev"}]}'
    )
    assert spec.branch_subject == "repo:example@123456/tritonstack@789012:ref:refs/heads/main"
