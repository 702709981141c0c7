"""AWS::CodeBuild::Project: creation, updates, and rejected properties."""

import json

import pytest

from packages.local_cloud.tests.cloudformation.stacks import parameter, resource

SPEC = json.dumps({"version": "0.2", "phases": {"build": {"commands": ["true"]}}})
TRUST = {"Version": "2012-10-17", "Statement": []}


def project(**properties):
    return resource(
        "AWS::CodeBuild::Project",
        **{
            "ServiceRole": {"Fn::Sub": "arn:aws:iam::${AWS::AccountId}:role/builds"},
            "Source": {"Type": "S3", "Location": "b/k.zip", "BuildSpec": SPEC},
            "Artifacts": {"Type": "NO_ARTIFACTS"},
            "Environment": {
                "Type": "LINUX_CONTAINER",
                "Image": "image",
                "ComputeType": "BUILD_GENERAL1_SMALL",
                "PrivilegedMode": "true",
                "EnvironmentVariables": [{"Name": "A", "Value": 1, "Type": "PLAINTEXT"}],
            },
            **properties,
        },
    )


def held(stack):
    found = stack.account.client("codebuild").batch_get_projects(names=["mine"])["projects"]
    return found[0] if found else None


def test_a_project_with_all_properties_and_then_with_none(stack):
    full = project(
        Name="mine",
        Description="d",
        Cache={"Type": "LOCAL", "Modes": ["LOCAL_DOCKER_LAYER_CACHE"]},
        ConcurrentBuildLimit="3",
        TimeoutInMinutes="90",
        QueuedTimeoutInMinutes=30,
        LogsConfig={"CloudWatchLogs": {"Status": "ENABLED", "GroupName": "/g", "StreamName": "s"}},
        Tags=[{"Key": "a", "Value": "b"}],
    )
    arn = parameter({"Fn::GetAtt": ["P", "Arn"]}, Name="/arn")
    assert stack.create({"P": full, "Arn": arn}) == "CREATE_COMPLETE", stack.reasons()
    found = held(stack)
    assert stack.physical_ids()["P"] == "mine"
    assert stack.account.client("ssm").get_parameter(Name="/arn")["Parameter"]["Value"] == found["arn"]
    assert found["source"] == {"type": "S3", "location": "b/k.zip", "buildspec": SPEC}
    assert found["environment"]["privilegedMode"] is True
    assert found["environment"]["environmentVariables"] == [{"name": "A", "value": "1", "type": "PLAINTEXT"}]
    assert (found["timeoutInMinutes"], found["queuedTimeoutInMinutes"]) == (90, 30)
    assert found["concurrentBuildLimit"] == 3
    assert found["logsConfig"]["cloudWatchLogs"]["streamName"] == "s"
    assert found["tags"] == [{"key": "a", "value": "b"}]

    assert stack.update({"P": project(Name="mine"), "Arn": arn}) == "UPDATE_COMPLETE", stack.reasons()
    bare = held(stack)
    assert (bare["timeoutInMinutes"], bare["queuedTimeoutInMinutes"]) == (60, 480)
    assert bare["cache"] == {"type": "NO_CACHE"}
    assert "concurrentBuildLimit" not in bare
    assert (bare["description"], bare["tags"]) == ("", [])
    assert "groupName" not in bare["logsConfig"]["cloudWatchLogs"]
    assert bare["created"] == found["created"]

    assert stack.delete() == "DELETE_COMPLETE"
    assert held(stack) is None


def test_a_new_name_replaces_the_project(stack):
    stack.create({"P": project(Name="mine")})
    assert stack.changes({"P": project(Name="other")})["P"] == ("Modify", "True")


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"Source": {"Type": "GITHUB", "Location": "x"}}, "does not support ProjectSource.type=GITHUB"),
        ({"AutoRetryLimit": 1}, "does not support CreateProject.autoRetryLimit"),
        ({"Triggers": {"Webhook": True}}, "property Triggers of AWS::CodeBuild::Project is unknown"),
        ({"Environment": {"Type": "LINUX_CONTAINER", "Speed": 1}}, "property Environment.Speed"),
    ],
)
def test_unsupported_properties_are_rejected_before_creation(stack, properties, reason):
    with pytest.raises(Exception, match=reason):
        stack.create({"P": project(**properties)})
