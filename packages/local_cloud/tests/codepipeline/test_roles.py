"""Action roles: CreatePipeline checks that the pipeline's role can assume them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.codepipeline.conftest import Pipeline, document, stack_stage, statement

SERVICE = {"Service": "codepipeline.amazonaws.com"}


def arn(pipeline: Pipeline, role: str) -> str:
    return f"arn:aws:iam::{pipeline.account.account_id}:role/{role}"


def make_role(pipeline: Pipeline, name: str, *trust: dict[str, Any], **more: Any) -> str:
    made = pipeline.client("iam").create_role(
        RoleName=name, AssumeRolePolicyDocument=document(*trust), **more
    )
    return str(made["Role"]["Arn"])


def allow(pipeline: Pipeline, *statements: dict[str, Any]) -> None:
    policy = document(*statements)
    pipeline.client("iam").put_role_policy(RoleName="pipeline", PolicyName="p", PolicyDocument=policy)


def error_of(pipeline: Pipeline, role: str) -> str | None:
    declared = pipeline.declaration(stack_stage(roleArn=role))
    try:
        pipeline.api.create_pipeline(pipeline=declared)
    except pipeline.api.exceptions.InvalidStructureException as error:
        return str(error.response["Error"]["Message"])
    return None


def test_a_pipeline_role_needs_permission_for_action_roles(pipeline: Pipeline) -> None:
    own = make_role(pipeline, "pipeline", statement(Principal=SERVICE))
    assert error_of(pipeline, own) == f"{own} is not authorized to perform AssumeRole on role {own}"
    assert pipeline.api.list_pipelines()["pipelines"] == []


@pytest.mark.parametrize("missing", ["pipeline", "deploy"])
def test_roles_must_exist(pipeline: Pipeline, missing: str) -> None:
    (other,) = {"pipeline", "deploy"} - {missing}
    make_role(pipeline, other, statement(Principal={"AWS": "*"}))
    assert error_of(pipeline, arn(pipeline, "deploy")) is not None


MINE, ITS = {"AWS": ["{own}"]}, {"AWS": "{root}"}
BY_NAME = {"StringEquals": {"aws:PrincipalArn": "{own}"}}


@pytest.mark.parametrize(
    ("trust", "own", "let_in"),
    [
        ([statement(Principal=MINE)], [], True),
        ([statement(Principal=ITS)], [], False),
        ([statement(Principal=ITS)], [statement(Resource="{deploy}")], True),
        ([statement(Principal=ITS)], [statement(Resource="{own}")], False),
        ([statement(Principal=ITS)], [statement(NotResource="{own}")], True),
        ([statement(Principal=ITS)], [{**statement(Resource="*"), "Action": ["s3:*", "sts:Assume*"]}], True),
        ([statement(Principal=SERVICE)], [statement(Resource="*")], False),
        ([statement(Principal={"AWS": "arn:aws:iam::000000000009:root"})], [statement(Resource="*")], False),
        ([statement(Principal=MINE)], [statement("Deny", Resource="*")], False),
        ([statement(Principal=MINE), statement("Deny", Principal="*")], [], False),
        ([statement(Principal=ITS, Condition=BY_NAME)], [statement(Resource="*")], True),
        ([statement(Principal=MINE, Condition={"StringEquals": {"aws:PrincipalArn": "x"}})], [], False),
        # Unknown condition keys count against the caller.
        ([statement(Principal=MINE, Condition={"Bool": {"aws:MultiFactorAuthPresent": "true"}})], [], False),
        (
            [statement(Principal=MINE)],
            [statement("Deny", Resource="*", Condition={"Bool": {"aws:MultiFactorAuthPresent": "false"}})],
            False,
        ),
    ],
)
def test_trust_policies_of_action_roles(
    pipeline: Pipeline, trust: list[dict[str, Any]], own: list[dict[str, Any]], let_in: bool
) -> None:
    known = {
        "{own}": arn(pipeline, "pipeline"),
        "{deploy}": arn(pipeline, "deploy"),
        "{root}": f"arn:aws:iam::{pipeline.account.account_id}:root",
    }

    def told(statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
        text = json.dumps(statements)
        for name, value in known.items():
            text = text.replace(name, value)
        return list(json.loads(text))

    make_role(pipeline, "pipeline", statement(Principal=SERVICE))
    if own:
        allow(pipeline, *told(own))
    make_role(pipeline, "deploy", *told(trust))
    assert (error_of(pipeline, known["{deploy}"]) is None) is let_in


@pytest.mark.parametrize(("leaves", "let_in"), [("sts:*", True), ("s3:*", False)])
def test_a_permissions_boundary_must_allow_it(pipeline: Pipeline, leaves: str, let_in: bool) -> None:
    policy = document({"Effect": "Allow", "Action": leaves, "Resource": "*"})
    iam = pipeline.client("iam")
    boundary = iam.create_policy(PolicyName="edge", PolicyDocument=policy)["Policy"]["Arn"]
    make_role(pipeline, "pipeline", statement(Principal=SERVICE), PermissionsBoundary=boundary)
    deploy = make_role(pipeline, "deploy", statement(Principal={"AWS": "*"}))
    everything = iam.create_policy(PolicyName="all", PolicyDocument=document(statement(Resource="*")))
    iam.attach_role_policy(RoleName="pipeline", PolicyArn=everything["Policy"]["Arn"])
    assert (error_of(pipeline, deploy) is None) is let_in


def test_an_action_uses_its_role_while_it_exists(pipeline: Pipeline) -> None:
    own = make_role(pipeline, "pipeline", statement(Principal=SERVICE))
    deploy = make_role(pipeline, "deploy", statement(Principal={"AWS": own}))
    pipeline.commit(template_json=json.dumps({"Resources": {"T": {"Type": "AWS::SNS::Topic"}}}))
    assert pipeline.settled(pipeline.create(stack_stage(roleArn=deploy))) == "Succeeded"
    pipeline.client("iam").delete_role(RoleName="deploy")
    again = pipeline.api.start_pipeline_execution(name=pipeline.name)["pipelineExecutionId"]
    assert pipeline.settled(again) == "Failed"
    assert "cannot be assumed" in pipeline.action("Deploy", "App")["errorDetails"]["message"]


def test_pipeline_updates_are_checked_too(pipeline: Pipeline) -> None:
    own = make_role(pipeline, "pipeline", statement(Principal=SERVICE))
    pipeline.api.create_pipeline(pipeline=pipeline.declaration(stack_stage()))
    update = pipeline.api.update_pipeline
    with pytest.raises(ClientError, match="not authorized to perform AssumeRole"):
        update(pipeline=pipeline.declaration(stack_stage(roleArn=own)))
