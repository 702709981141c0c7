"""Run pipelines: sources, stacks, and approvals. Builds are in test_builds.py."""

import json

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, parameter
from packages.local_cloud.tests.codepipeline.conftest import action, stack_stage
from tritonstack_local.codepipeline.unsupported import ACCEPTED_WITHOUT_EFFECT, UNSUPPORTED
from tritonstack_local.service.wire import service_model

APPROVAL = {"name": "Gate", "actions": [action("Approval/Manual", "Ok")]}


def template(value, **more):
    return json.dumps({"Resources": {"P": parameter(value, Name="/deployed")}, **more})


def deployed(pipeline):
    return pipeline.client("ssm").get_parameter(Name="/deployed")["Parameter"]["Value"]


def error_of(call, **asked):
    with pytest.raises(ClientError) as caught:
        call(**asked)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_stack_is_deployed_after_approval(pipeline):
    first = pipeline.commit(template_json=template("one"))
    execution = pipeline.create(APPROVAL, stack_stage())
    token = pipeline.waiting("Gate", "Ok")
    assert pipeline.client("cloudformation").list_stacks()["StackSummaries"] == []
    pipeline.decide("Gate", "Ok", token, "Approved", "looks good")
    assert pipeline.settled(execution) == "Succeeded"
    assert deployed(pipeline) == "one"
    assert pipeline.action("Gate", "Ok")["summary"] == "looks good"
    shown = pipeline.executions()[0]
    assert (shown["trigger"]["triggerType"], shown["sourceRevisions"][0]["revisionId"]) == (
        "CreatePipeline",
        first,
    )

    pipeline.commit(template_json=template("two"))
    second = pipeline.api.start_pipeline_execution(name=pipeline.name)["pipelineExecutionId"]
    pipeline.decide("Gate", "Ok", pipeline.waiting("Gate", "Ok"), "Rejected", "not today")
    assert pipeline.settled(second) == "Failed"
    assert pipeline.action("Gate", "Ok")["errorDetails"] == {"code": "JobFailed", "message": "not today"}
    assert deployed(pipeline) == "one"
    late = error_of(
        pipeline.api.put_approval_result,
        pipelineName=pipeline.name,
        stageName="Gate",
        actionName="Ok",
        token=token,
        result={"summary": "", "status": "Approved"},
    )
    assert late[0] == "ApprovalAlreadyCompletedException"


def test_a_change_set_is_created_and_executed(pipeline):
    pipeline.commit(template_json=template("one", Outputs={"Told": {"Value": "out"}}))
    named = {"StackName": "app", "ChangeSetName": "plan"}
    stage = {
        "name": "Deploy",
        "actions": [
            action(
                "Deploy/CloudFormation",
                "Prepare",
                inputs=("Source",),
                ActionMode="CHANGE_SET_REPLACE",
                TemplatePath="Source::template.json",
                **named,
            ),
            action(
                "Deploy/CloudFormation",
                "Execute",
                order=2,
                namespace="App",
                ActionMode="CHANGE_SET_EXECUTE",
                **named,
            ),
        ],
    }
    told = action("Approval/Manual", "Ok", order=3, CustomData="#{App.Told} of #{Source.VersionId}")
    execution = pipeline.create({**stage, "actions": [*stage["actions"], told]})
    pipeline.decide("Deploy", "Ok", pipeline.waiting("Deploy", "Ok"), "Approved")
    assert pipeline.settled(execution) == "Succeeded"
    assert deployed(pipeline) == "one"
    details = pipeline.api.list_action_executions(pipelineName=pipeline.name)["actionExecutionDetails"]
    assert [item["actionName"] for item in details] == ["Ok", "Execute", "Prepare", "Fetch"]
    assert details[1]["output"]["outputVariables"] == {"Told": "out"}
    # Again: an update without changes succeeds.
    again = pipeline.api.start_pipeline_execution(name=pipeline.name)["pipelineExecutionId"]
    pipeline.decide("Deploy", "Ok", pipeline.waiting("Deploy", "Ok"), "Approved")
    assert pipeline.settled(again) == "Succeeded"


def test_a_failure_is_reported_and_the_stage_can_be_retried(pipeline):
    pipeline.commit(template_json=json.dumps({"Resources": {"P": parameter(Name="/taken")}}))
    pipeline.client("ssm").put_parameter(Name="/taken", Value="v", Type="String")
    execution = pipeline.create(stack_stage())
    assert pipeline.settled(execution) == "Failed"
    error = pipeline.action("Deploy", "App")["errorDetails"]
    assert error["message"].startswith("Stack is in state: ROLLBACK_COMPLETE. P: ")
    pipeline.client("ssm").delete_parameter(Name="/taken")
    pipeline.client("cloudformation").delete_stack(StackName="app")
    pipeline.api.retry_stage_execution(
        pipelineName=pipeline.name,
        stageName="Deploy",
        pipelineExecutionId=execution,
        retryMode="FAILED_ACTIONS",
    )
    assert pipeline.settled(execution) == "Succeeded"


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (
            [stack_stage(TemplatePath="Source::none.json")],
            "File [none.json] does not exist in artifact",
        ),
        ([stack_stage(ActionMode="REPLACE_ON_FAILURE")], "not the mode REPLACE_ON_FAILURE"),
        ([stack_stage(StackName="#{variables.stack}")], "The variable #{variables.stack} has no value"),
    ],
)
def test_an_action_reports_why_it_failed(pipeline, stages, said):
    pipeline.commit(template_json=template("v"))
    assert pipeline.settled(pipeline.create(*stages)) == "Failed"
    assert said in pipeline.action("Deploy", "App")["errorDetails"]["message"]


def test_a_missing_source_fails_the_execution(pipeline):
    assert pipeline.settled(pipeline.create(stack_stage())) == "Failed"
    assert "cannot be read: 404" in pipeline.action("Source", "Fetch")["errorDetails"]["message"]


def test_variables_and_revisions_can_be_given(pipeline):
    old = pipeline.commit(template_json=template("old"))
    pipeline.commit(template_json=template("new"))
    stage = stack_stage(StackName="#{variables.stack}")
    execution = pipeline.create(stage, variables=[{"name": "stack", "defaultValue": "usual"}])
    assert pipeline.settled(execution) == "Succeeded"
    StackDriver(pipeline.account, "usual").delete()
    asked = pipeline.api.start_pipeline_execution(
        name=pipeline.name,
        variables=[{"name": "stack", "value": "other"}],
        sourceRevisions=[
            {"actionName": "Fetch", "revisionType": "S3_OBJECT_VERSION_ID", "revisionValue": old}
        ],
    )["pipelineExecutionId"]
    assert pipeline.settled(asked) == "Succeeded"
    assert deployed(pipeline) == "old"
    assert StackDriver(pipeline.account, "other").described()["StackStatus"] == "CREATE_COMPLETE"


def test_a_newer_waiting_execution_supersedes_older_ones(pipeline):
    pipeline.commit(template_json=template("v"))
    first = pipeline.create(APPROVAL)
    token = pipeline.waiting("Gate", "Ok")
    start = pipeline.api.start_pipeline_execution
    second, third = (start(name=pipeline.name)["pipelineExecutionId"] for _ in range(2))
    assert pipeline.settled(second) == "Superseded"
    pipeline.decide("Gate", "Ok", token, "Approved")
    assert pipeline.settled(first) == "Succeeded"
    newer = pipeline.await_(
        lambda: pipeline.action("Gate", "Ok").get("token"), lambda it: it not in {None, token}
    )
    pipeline.decide("Gate", "Ok", newer, "Approved")
    assert pipeline.settled(third) == "Succeeded"


def test_an_execution_can_be_stopped(pipeline):
    pipeline.commit(template_json=template("v"))
    execution = pipeline.create(APPROVAL, stack_stage())
    pipeline.waiting("Gate", "Ok")
    stop = {"pipelineName": pipeline.name, "pipelineExecutionId": execution}
    pipeline.api.stop_pipeline_execution(**stop, abandon=True, reason="enough")
    assert pipeline.settled(execution) == "Stopped"
    assert pipeline.action("Gate", "Ok")["status"] == "Abandoned"
    assert (
        error_of(pipeline.api.stop_pipeline_execution, **stop)[0] == "PipelineExecutionNotStoppableException"
    )


@pytest.mark.parametrize(
    ("stages", "more", "said"),
    [
        ([], {}, "There should be a minimum of 2 stages"),
        ([APPROVAL, APPROVAL], {}, "Stage names have to be unique"),
        (
            [stack_stage(), {"name": "x", "actions": [action("Source/S3", "late")]}],
            {},
            "first stage has source",
        ),
        (
            [{"name": "x", "actions": [action("Test/CodeBuild", "t", inputs=("None",), ProjectName="p")]}],
            {},
            "Input Artifact Bundle None",
        ),
        (
            [{"name": "x", "actions": [action("Invoke/Lambda", "l", FunctionName="f")]}],
            {},
            "does not support Invoke by AWS's Lambda",
        ),
        ([{**APPROVAL, "onFailure": {"result": "ROLLBACK"}}], {}, "stage conditions"),
        ([stack_stage(OutputFileName="o")], {}, "does not support CloudFormation.OutputFileName"),
    ],
)
def test_invalid_and_unsupported_input_is_rejected(pipeline, stages, more, said):
    asked = pipeline.declaration(*stages, **more)
    code, words = error_of(pipeline.api.create_pipeline, pipeline=asked)
    assert code.startswith("Invalid")
    assert said in words
    assert pipeline.api.list_pipelines()["pipelines"] == []


IN_EFFECT = {
    "PipelineDeclaration": {
        "roleArn",
        "name",
        "artifactStore",
        "stages",
        "version",
        "executionMode",
        "pipelineType",
        "variables",
    },
    "StageDeclaration": {"name", "actions"},
    "ActionDeclaration": {
        "name",
        "actionTypeId",
        "runOrder",
        "configuration",
        "outputArtifacts",
        "inputArtifacts",
        "roleArn",
        "region",
        "namespace",
        "timeoutInMinutes",
    },
}


@pytest.mark.parametrize("shape", sorted(IN_EFFECT))
def test_every_field_of_a_declaration_is_supported_rejected_or_listed(shape):
    told = [name.split(".") for table in (UNSUPPORTED, ACCEPTED_WITHOUT_EFFECT) for name in table]
    known = {field for structure, field in told if structure == shape}
    assert known | IN_EFFECT[shape] == set(service_model("codepipeline").shape_for(shape).members)
    assert not known & IN_EFFECT[shape]


def test_a_pipeline_in_a_template(pipeline):
    def declared(stage, **more):
        asked = pipeline.declaration(stage)
        return {
            "Type": "AWS::CodePipeline::Pipeline",
            "Properties": {
                "Name": asked["name"],
                "RoleArn": asked["roleArn"],
                "PipelineType": "V2",
                "ArtifactStore": {"Type": "S3", "Location": pipeline.bucket},
                "Stages": [_capital(item) for item in asked["stages"]],
                **more,
            },
        }

    stack = StackDriver(pipeline.account, "pipeline-stack")
    pipeline.commit(template_json=template("v"))
    owner = [{"Key": "owner", "Value": "team"}]
    made = {"P": declared(stack_stage(), Tags=owner)}
    version = {"Outputs": {"Version": {"Value": {"Fn::GetAtt": ["P", "Version"]}}}}
    assert stack.create(made, **version) == "CREATE_COMPLETE", stack.reasons()
    assert pipeline.settled(pipeline.executions()[0]["pipelineExecutionId"]) == "Succeeded"
    assert stack.outputs() == {"Version": "1"}
    arn = pipeline.api.get_pipeline(name=pipeline.name)["metadata"]["pipelineArn"]
    tagging = pipeline.client("resourcegroupstaggingapi")
    told = tagging.get_resources(ResourceTypeFilters=["codepipeline"])["ResourceTagMappingList"]
    assert told == [{"ResourceARN": arn, "Tags": owner}]

    changed = {"P": declared(stack_stage(StackName="other"), RestartExecutionOnUpdate=True)}
    assert stack.changes(changed) == {"P": ("Modify", "False")}
    assert stack.update(changed, **version) == "UPDATE_COMPLETE"
    assert stack.outputs() == {"Version": "2"}
    assert len(pipeline.executions()) == 2
    pipeline.settled(pipeline.executions()[0]["pipelineExecutionId"])
    assert pipeline.api.list_tags_for_resource(resourceArn=arn)["tags"] == []

    rejected = {"P": declared({"name": "x", "actions": [action("Invoke/Lambda", "l")]})}
    with pytest.raises(ClientError, match="does not support Invoke by AWS's Lambda"):
        stack.update(rejected)
    assert stack.delete() == "DELETE_COMPLETE"
    assert pipeline.api.list_pipelines()["pipelines"] == []


def _capital(value):
    """Spell a declaration as templates do."""
    if isinstance(value, list):
        return [_capital(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key[:1].upper() + key[1:]: item if key == "configuration" else _capital(item)
        for key, item in value.items()
    }


def test_parallel_executions_do_not_wait(pipeline):
    pipeline.commit(template_json=template("v"))
    first = pipeline.create(APPROVAL, executionMode="PARALLEL")
    token = pipeline.waiting("Gate", "Ok")
    second = pipeline.api.start_pipeline_execution(name=pipeline.name)["pipelineExecutionId"]
    pipeline.await_(lambda: pipeline.action("Gate", "Ok").get("token"), lambda it: it not in {None, token})
    pipeline.decide("Gate", "Ok", pipeline.waiting("Gate", "Ok"), "Approved")
    assert pipeline.settled(second) == "Succeeded"
    assert pipeline.status(first) == "InProgress"
    pipeline.decide("Gate", "Ok", token, "Approved")
    assert pipeline.settled(first) == "Succeeded"
