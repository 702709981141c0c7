"""A pipeline's builds run in CodeBuild with its artifacts; executions survive a restart."""

import json

import pytest

from packages.local_cloud.tests.cloudformation.stacks import parameter
from packages.local_cloud.tests.codepipeline.conftest import Pipeline, action, document, statement
from packages.local_cloud.tests.state.restartable_cloud import RestartableCloud

TEMPLATE = {"Resources": {"P": parameter("MODEL", Name="/deployed")}}
MEASURE = {
    "version": "0.2",
    "env": {"exported-variables": ["FOUND"]},
    "phases": {"build": {"commands": ["mkdir out", "cp model.txt out/", "FOUND=$(cat model.txt)"]}},
    "artifacts": {"base-directory": "out", "files": ["**/*"]},
}
SYNTH = {
    "version": "0.2",
    "phases": {
        "build": {
            "commands": [
                "mkdir cdk.out",
                'sed "s/MODEL/$(cat $CODEBUILD_SRC_DIR_Built/*) by $WHO/" template.json > cdk.out/app.json',
                'test "$CODEBUILD_INITIATOR" = codepipeline/delivery',
            ]
        }
    },
    "artifacts": {"base-directory": "cdk.out", "files": "**/*"},
}


def project(pipeline, name, buildspec):
    iam = pipeline.client("iam")
    if not iam.list_roles()["Roles"]:
        trust = document(statement(Principal={"Service": "codebuild.amazonaws.com"}))
        iam.create_role(RoleName="build", AssumeRolePolicyDocument=trust)
    pipeline.client("codebuild").create_project(
        name=name,
        source={"type": "CODEPIPELINE", "buildspec": json.dumps(buildspec)},
        artifacts={"type": "CODEPIPELINE"},
        environment={
            "type": "LINUX_CONTAINER",
            "computeType": "BUILD_GENERAL1_SMALL",
            "image": "aws/codebuild/standard:7.0",
        },
        serviceRole=f"arn:aws:iam::{pipeline.account.account_id}:role/build",
    )


def stages():
    who = json.dumps([{"name": "WHO", "value": "#{Measured.FOUND}", "type": "PLAINTEXT"}])
    return (
        {
            "name": "Build",
            "actions": [
                action(
                    "Build/CodeBuild",
                    "Measure",
                    inputs=("Source",),
                    outputArtifacts=[{"name": "Built"}],
                    namespace="Measured",
                    ProjectName="measure",
                ),
                action(
                    "Build/CodeBuild",
                    "Synth",
                    inputs=("Source", "Built"),
                    order=2,
                    outputArtifacts=[{"name": "Assembly"}],
                    ProjectName="synth",
                    PrimarySource="Source",
                    EnvironmentVariables=who,
                ),
            ],
        },
        {
            "name": "Deploy",
            "actions": [
                action(
                    "Deploy/CloudFormation",
                    "App",
                    inputs=("Assembly",),
                    ActionMode="CREATE_UPDATE",
                    StackName="app",
                    TemplatePath="Assembly::app.json",
                )
            ],
        },
    )


@pytest.mark.soak
def test_builds_pass_artifacts_to_later_builds_and_stacks(pipeline):
    project(pipeline, "measure", MEASURE)
    project(pipeline, "synth", SYNTH)
    pipeline.commit(template_json=json.dumps(TEMPLATE), model_txt="m1")
    execution = pipeline.create(*stages())
    assert pipeline.settled(execution) == "Succeeded", pipeline.action("Build", "Synth")
    assert pipeline.client("ssm").get_parameter(Name="/deployed")["Parameter"]["Value"] == "m1 by m1"
    details = pipeline.api.list_action_executions(pipelineName=pipeline.name)["actionExecutionDetails"]
    measured = details[2]["output"]
    assert measured["outputVariables"] == {"FOUND": "m1"}
    build = measured["executionResult"]["externalExecutionId"]
    shown = pipeline.client("codebuild").batch_get_builds(ids=[build])["builds"][0]
    assert (shown["initiator"], shown["source"]["type"]) == ("codepipeline/delivery", "CODEPIPELINE")

    pipeline.commit(template_json=json.dumps(TEMPLATE))
    failing = pipeline.api.start_pipeline_execution(name=pipeline.name)["pipelineExecutionId"]
    assert pipeline.settled(failing) == "Failed"
    said = pipeline.action("Build", "Measure")["errorDetails"]["message"]
    assert said.startswith("Build terminated with state: FAILED. Phase: BUILD, Code: COMMAND_EXECUTION_ERROR")


def test_only_a_pipeline_starts_its_builds(pipeline):
    project(pipeline, "measure", MEASURE)
    codebuild = pipeline.client("codebuild")
    with pytest.raises(codebuild.exceptions.InvalidInputException, match="started by their pipeline"):
        codebuild.start_build(projectName="measure")


def test_an_execution_resumes_after_a_restart(tmp_path):
    cloud = RestartableCloud(tmp_path / "cloud")
    try:
        pipeline = Pipeline(cloud.account)
        pipeline.prepare()
        pipeline.commit(model_txt="m1")
        execution = pipeline.create({"name": "Gate", "actions": [action("Approval/Manual", "Ok")]})
        token = pipeline.waiting("Gate", "Ok")
        waiting = pipeline.api.start_pipeline_execution(name=pipeline.name)["pipelineExecutionId"]
        cloud.restart()
        pipeline = Pipeline(cloud.account)
        assert pipeline.waiting("Gate", "Ok") == token, "who was in a stage is there again"
        pipeline.decide("Gate", "Ok", token, "Approved")
        assert pipeline.settled(execution) == "Succeeded"
        pipeline.decide("Gate", "Ok", pipeline.waiting("Gate", "Ok"), "Approved")
        assert pipeline.settled(waiting) == "Succeeded"
    finally:
        cloud.end()
