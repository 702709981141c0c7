"""Issues that users of other tools report, if a template prevents them; numbers are those of the issues."""

import json
import re
from typing import Any

from tests.stacks.assemblies import Assembly, lock_everything
from tests.stacks.templates import only, properties

MODEL = "AWS::SageMaker::Model"
CONFIG = "AWS::SageMaker::EndpointConfig"
ENDPOINT = "AWS::SageMaker::Endpoint"


def every_endpoint(assembly: Assembly) -> list[Any]:
    return [assembly.endpoint(name) for name in assembly.workspace.spec.endpoints]


# awslabs/generative-ai-cdk-constructs


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


# amazon-sagemaker-examples


def test_nothing_is_hard_coded(sample, retaining):
    """Two environments: the templates of one contain no region or name of the other."""
    there = sample.text("tritonstack-sample-endpoint-plain") + sample.text("tritonstack-sample-foundation")
    here = retaining.text("tritonstack-kept-endpoint-plain") + retaining.text("tritonstack-kept-foundation")
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
