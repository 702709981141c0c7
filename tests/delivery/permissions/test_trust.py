"""Who can assume which role: GitHub jobs by their token's claims, and roles of other accounts."""

import pytest

from stacks.delivery import delivery_target
from tests.delivery.delivery_project import DEV, PROD, TOOLS
from tests.delivery.permissions.iam import roles, trusts_job, trusts_role

REPOSITORY = "repo:example/tritonstack"
ON_MAIN = "refs/heads/main"


def token(subject: str, *, ref: str = ON_MAIN, aud: str = "sts.amazonaws.com") -> dict[str, str]:
    return {"sub": subject, "aud": aud, "ref": ref}


def trusting(template, claims):
    """Return the roles that trust a job."""
    return {
        name.removeprefix("tritonstack-delivery-").partition("-")[2]
        for name, role in roles(template).items()
        if trusts_job(role, claims)
    }


@pytest.mark.parametrize(
    ("claims", "in_dev", "in_prod"),
    [
        pytest.param(
            token(f"{REPOSITORY}:pull_request", ref="refs/pull/7/merge"),
            {"plan", "preview"},
            {"plan"},
            id="a pull request looks, and makes previews beside dev",
        ),
        pytest.param(
            token(f"{REPOSITORY}:ref:refs/heads/main"),
            {"plan", "clean-up"},
            {"plan", "clean-up", "promote"},
            id="the branch looks, cleans up and promotes",
        ),
        pytest.param(
            token(f"{REPOSITORY}:environment:dev"), {"deploy"}, set(), id="a job of dev deploys dev alone"
        ),
        pytest.param(
            token(f"{REPOSITORY}:environment:prod"), set(), {"deploy"}, id="a job of prod deploys prod alone"
        ),
    ],
)
def test_jobs_assume_only_their_roles(delivery_stacks, claims, in_dev, in_prod):
    assert trusting(delivery_stacks["dev"], claims) == in_dev
    assert trusting(delivery_stacks["prod"], claims) == in_prod


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param(
            token(f"{REPOSITORY}:environment:prod", ref="refs/pull/7/merge"), id="prod, by another ref"
        ),
        pytest.param(token(f"{REPOSITORY}:ref:refs/heads/mine", ref="refs/heads/mine"), id="another branch"),
        pytest.param(token(f"{REPOSITORY}:ref:refs/tags/main", ref="refs/tags/main"), id="a tag"),
        pytest.param(token("repo:example/tritonstack-fork:pull_request"), id="another repository"),
        pytest.param(token("repo:example@1/tritonstack@2:ref:refs/heads/main"), id="under other numbers"),
        pytest.param(
            token(f"{REPOSITORY}:ref:refs/heads/main", aud="https://github.com/example"),
            id="made for somebody else",
        ),
    ],
)
def test_other_tokens_are_denied(delivery_stacks, claims):
    assert [trusting(template, claims) for template in delivery_stacks.values()] == [set()] * 3


def test_no_condition_contains_a_pattern(delivery_stacks):
    conditions = {
        name: [
            statement["Condition"]
            for role in roles(template).values()
            for statement in role["AssumeRolePolicyDocument"]["Statement"]
            if statement["Action"] == "sts:AssumeRoleWithWebIdentity"
        ]
        for name, template in delivery_stacks.items()
    }
    assert set(conditions) == {"dev", "staging", "prod"}
    assert all(conditions.values())
    for condition in (item for of_role in conditions.values() for item in of_role):
        assert set(condition) == {"StringEquals"}
        assert "*" not in str(condition)


def test_existing_github_provider_is_reused(roads, tmp_path):
    target = delivery_target(roads, "dev")
    assert target.makes_provider
    text = roads.delivery_file.read_text()
    try:
        roads.delivery_file.write_text(text + f'providers_exist: ["{DEV}"]\n')
        assert not delivery_target(roads, "dev").makes_provider
    finally:
        roads.delivery_file.write_text(text)


def test_promoting_accounts_get_a_reader_role(delivery_stacks):
    assert "tritonstack-delivery-dev-promotion-reader" not in roles(
        delivery_stacks["dev"]
    )  # staging is in the same account
    reader = roles(delivery_stacks["staging"])["tritonstack-delivery-staging-promotion-reader"]
    (statement,) = reader["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"AWS": [f"arn:aws:iam::{PROD}:root"]}
    assert "tritonstack-delivery-prod-promotion-reader" not in roles(delivery_stacks["prod"])


@pytest.mark.parametrize("duty", ["deploy", "promote", "clean-up"])
def test_each_pipeline_step_assumes_its_role_in_its_environment(delivery_stacks, duty):
    """What runs before prod's approval cannot reach anything in prod."""
    steps = {
        other: f"arn:aws:iam::{TOOLS}:role/tritonstack-delivery-pipeline-{other}"
        for other in (
            *("deploy-prod", "promote-prod", "clean-up-prod"),
            *("deploy-dev", "promote-dev", "clean-up-dev", "synth", duty),
        )
    }
    role = roles(delivery_stacks["prod"])[f"tritonstack-delivery-prod-{duty}"]
    assert [other for other, arn in steps.items() if trusts_role(role, arn)] == [f"{duty}-prod"]
    assert not trusts_role(role, f"arn:aws:iam::{TOOLS}:role/somebody")
