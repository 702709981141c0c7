"""Issues that users of other tools report, if a template prevents them; numbers are those of the issues."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.stacks.assemblies import Assembly, lock_everything
from tests.stacks.templates import only, production, properties

MODEL = "AWS::SageMaker::Model"
CONFIG = "AWS::SageMaker::EndpointConfig"
ENDPOINT = "AWS::SageMaker::Endpoint"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"


def every_endpoint(assembly: Assembly) -> list[Any]:
    return [assembly.endpoint(name) for name in assembly.workspace.spec.endpoints]


# awslabs/generative-ai-cdk-constructs


def test_scaling_bounds_can_be_set_424(every):
    for name, low, high in (("shelf", 2, 4), ("queued", 0, 4), ("compared", 4, 8)):
        targets = every.endpoint(name).find_resources(TARGET).values()
        bounds = {
            (found["Properties"]["MinCapacity"], found["Properties"]["MaxCapacity"]) for found in targets
        }
        assert bounds == {(low, high)}


def test_start_and_stop_schedules_317(bare_project, synthesize):
    project = bare_project()
    file = project.environment_file("sample")
    hours = '{day: {at: "07:30", days: MON-FRI, min: 2, max: 6}, night: {at: "20:00", min: 1, max: 1}}'
    file.write_text(
        file.read_text().replace("max_instances: 6,", f"max_instances: 6, schedules: {hours},", 1)
    )
    plain = synthesize(lock_everything(project, "sample")).endpoint("plain")
    actions = {
        action["ScheduledActionName"].rpartition("-")[2]: action["ScalableTargetAction"]
        for action in properties(plain, TARGET)["ScheduledActions"]
    }
    assert actions == {
        "day": {"MinCapacity": 2, "MaxCapacity": 6},
        "night": {"MinCapacity": 1, "MaxCapacity": 1},
    }


def test_model_is_created_after_the_policy_of_its_role_432(every):
    templates = every_endpoint(every)
    assert templates
    for template in templates:
        policies = set(template.find_resources("AWS::IAM::Policy"))
        models = template.find_resources(MODEL)
        assert models
        assert [name for name, model in models.items() if not policies & set(model["DependsOn"])] == []


def test_no_role_has_full_access(every):
    templates = every_endpoint(every)
    assert templates
    for template in templates:
        text = json.dumps(template.to_json())
        assert "FullAccess" not in text
        assert "ManagedPolicyArns" not in text


# aws/aws-cdk, aws-sagemaker-alpha


def test_multi_model_endpoints_23154(every):
    container = properties(every.endpoint("shelf"), MODEL)["PrimaryContainer"]
    assert container["Mode"] == "MultiModel"
    assert container["MultiModelConfig"] == {"ModelCacheSetting": "Disabled"}


def test_deployment_guardrails_23152(every):
    guarded = [
        template
        for template in every_endpoint(every)
        if not template.find_resources("AWS::SageMaker::InferenceComponent")
    ]
    assert guarded
    for template in guarded:
        assert properties(template, ENDPOINT)["DeploymentConfig"]


def test_data_capture_23150(every):
    capture = properties(every.endpoint("shadowed"), CONFIG)["DataCaptureConfig"]
    assert capture["EnableCapture"] is True
    assert capture["InitialSamplingPercentage"] == 5


# awslabs/aiops-modules


def test_no_new_configuration_at_each_synthesis(bare_project, synthesize):
    first, second = (synthesize(lock_everything(bare_project(), "every")) for _ in range(2))
    assert [first.text(stack) for stack in first.stacks] == [second.text(stack) for stack in second.stacks]


def test_scaling_and_guardrails_are_configured(sample):
    plain = sample.endpoint("plain")
    assert plain.find_resources(TARGET)
    assert properties(plain, ENDPOINT)["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]


# amazon-sagemaker-examples


def test_nothing_is_hard_coded(sample, kept):
    """Two environments: the templates of one contain no region or name of the other."""
    there = sample.text("tritonstack-sample-endpoint-plain") + sample.text("tritonstack-sample-foundation")
    here = kept.text("tritonstack-kept-endpoint-plain") + kept.text("tritonstack-kept-foundation")
    assert "eu-central-1" in there
    assert "eu-central-1" not in here
    assert not re.search(r"tritonstack-sample", here)


# philschmid/terraform-aws-sagemaker-huggingface, and what comes back everywhere


def test_an_update_breaks_nothing_6(bare_project, synthesize):
    """A new artifact replaces model and configuration, which have no fixed names that could collide."""
    project = bare_project()
    before = synthesize(lock_everything(project, "sample")).endpoint("plain")
    after = synthesize(lock_everything(project, "sample", digest="cd" * 32)).endpoint("plain")
    assert properties(before, MODEL) != properties(after, MODEL)
    for template in (before, after):
        assert "ModelName" not in properties(template, MODEL)
        assert "EndpointConfigName" not in properties(template, CONFIG)
    assert properties(before, ENDPOINT) == properties(after, ENDPOINT)
    assert only(before, ENDPOINT)[0] == only(after, ENDPOINT)[0]


def test_the_instance_count_survives_an_update(sample):
    endpoint = properties(sample.endpoint("plain"), ENDPOINT)
    assert endpoint["RetainAllVariantProperties"] is True
    assert "DesiredInstanceCount" not in json.dumps(endpoint["ExcludeRetainedVariantProperties"])


def test_a_rollback_is_not_silent(sample):
    """Alarms that roll an update back notify someone, and so does SageMaker's rollback event."""
    plain, foundation = sample.endpoint("plain"), sample.foundation
    names = {
        alarm["AlarmName"]
        for alarm in properties(plain, ENDPOINT)["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    }
    for alarm in plain.find_resources("AWS::CloudWatch::Alarm").values():
        if alarm["Properties"]["AlarmName"] in names:
            assert alarm["Properties"]["AlarmActions"]
            names.discard(alarm["Properties"]["AlarmName"])
    assert not names
    rules = foundation.find_resources("AWS::Events::Rule").values()
    patterns = json.dumps([rule["Properties"]["EventPattern"] for rule in rules])
    assert '"ROLLING_BACK"' in patterns
    assert '"UPDATE_ROLLBACK_IN_PROGRESS"' in patterns


@pytest.mark.parametrize("name", ["accelerated", "plain"])
def test_slow_start_is_awaited_until_a_timeout(sample, name):
    variant = production(sample.endpoint(name))
    assert 60 <= variant["ContainerStartupHealthCheckTimeoutInSeconds"] <= 3600
    assert 60 <= variant["ModelDataDownloadTimeoutInSeconds"] <= 3600


def test_out_of_memory_146_is_predicted(sample):
    alarms = sample.endpoint("accelerated").find_resources("AWS::CloudWatch::Alarm").values()
    names = {alarm["Properties"]["AlarmName"] for alarm in alarms}
    assert "tritonstack-sample-accelerated-gpu-memory" in names
