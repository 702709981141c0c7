"""SageMaker resources in a stack, with a fake Triton."""

import time

import pytest

from packages.local_cloud.tests.cloudformation.stacks import resource
from packages.local_cloud.tests.sagemaker.cloud import IMAGE
from packages.local_cloud.tests.sagemaker.fakes import tarball
from tritonstack_local.cloudformation import engine
from tritonstack_local.cloudformation.providers import PROVIDERS, providers_for

ROLE = {"Fn::Sub": "arn:aws:iam::${AWS::AccountId}:role/endpoint"}

ARCHIVE = tarball({"model/config.pbtxt": "", "model/1/model.py": ""})


@pytest.fixture
def artifact(stack):
    s3 = stack.account.client("s3")
    bucket = f"artifacts-{stack.account.account_id}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_object(Bucket=bucket, Key="model.tar.gz", Body=ARCHIVE)
    return f"s3://{bucket}/model.tar.gz"


def serving(artifact, *, tags=(), **environment):
    """Return a model, a configuration, and an endpoint, as the stacks of this project define them."""
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": "1",
        "InitialVariantWeight": 1,
    }
    container = {"Image": IMAGE, "ModelDataUrl": artifact, "Environment": environment}
    return {
        "Model": resource(
            "AWS::SageMaker::Model", ExecutionRoleArn=ROLE, PrimaryContainer=container, Tags=list(tags)
        ),
        "Config": resource("AWS::SageMaker::EndpointConfig", ProductionVariants=[variant]),
        "Endpoint": resource(
            "AWS::SageMaker::Endpoint",
            EndpointName="Serving",
            EndpointConfigName={"Fn::GetAtt": ["Config", "EndpointConfigName"]},
            RetainAllVariantProperties="true",
        ),
    }


def answer(stack):
    runtime = stack.account.client("sagemaker-runtime")
    return runtime.invoke_endpoint(EndpointName="Serving", Body=b"ask")["Body"].read().decode()


def names(stack):
    sagemaker = stack.account.client("sagemaker")
    return (
        len(sagemaker.list_models()["Models"]),
        len(sagemaker.list_endpoint_configs()["EndpointConfigs"]),
        len(sagemaker.list_endpoints()["Endpoints"]),
    )


def test_create_update_and_delete_an_endpoint(stack, artifact):
    assert stack.create(serving(artifact, FAKE_ANSWER="one")) == "CREATE_COMPLETE"
    assert answer(stack) == "one"
    assert stack.physical_ids()["Endpoint"].startswith("arn:aws:sagemaker:")
    changed = serving(artifact, FAKE_ANSWER="two")
    assert stack.changes(changed) == {
        "Model": ("Modify", "True"),
        "Config": ("Modify", "True"),
        "Endpoint": ("Modify", "False"),
    }
    assert stack.update(changed) == "UPDATE_COMPLETE"
    assert answer(stack) == "two"
    assert names(stack) == (1, 1, 1)
    assert stack.delete() == "DELETE_COMPLETE"
    assert names(stack) == (0, 0, 0)


def test_a_failed_endpoint_reports_the_reason_and_leaves_nothing(stack, artifact):
    assert stack.create(serving(artifact, FAKE_STARTS="no")) == "ROLLBACK_COMPLETE"
    assert "no such tensor" in stack.reasons()
    assert names(stack) == (0, 0, 0)


@pytest.mark.parametrize("retained", [False, True])
def test_clean_up_after_a_silent_rollback_deletes_what_serves_unless_retained(stack, artifact, retained):
    """SageMaker rolls an update back, and CloudFormation reports success."""

    def resources(**environment):
        found = serving(artifact, **environment)
        for name in ("Model", "Config"):
            found[name]["UpdateReplacePolicy"] = "Retain" if retained else "Delete"
        return found

    sagemaker = stack.account.client("sagemaker")
    stack.create(resources(FAKE_ANSWER="one"))
    served_config = sagemaker.describe_endpoint(EndpointName="Serving")["EndpointConfigName"]
    assert stack.update(resources(FAKE_STARTS="no")) == "UPDATE_COMPLETE"
    described = sagemaker.describe_endpoint(EndpointName="Serving")
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", served_config)
    assert answer(stack) == "one"
    assert names(stack) == ((2, 2, 1) if retained else (1, 1, 1))
    status = stack.update(resources(FAKE_ANSWER="three"))
    if retained:
        assert (status, answer(stack)) == ("UPDATE_COMPLETE", "three")
    else:
        assert (status, answer(stack)) == ("UPDATE_ROLLBACK_FAILED", "one")
        assert "endpoint configuration" in stack.reasons()


def test_an_endpoint_that_rolls_back_can_fail_the_update(stack, artifact, monkeypatch):
    failing = providers_for(rollback_fails_update=True)["AWS::SageMaker::Endpoint"]
    monkeypatch.setitem(PROVIDERS, failing.type_name, failing)
    stack.create(serving(artifact, FAKE_ANSWER="one"))
    assert stack.update(serving(artifact, FAKE_STARTS="no")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "no such tensor" in stack.reasons()
    assert answer(stack) == "one"
    assert names(stack) == (1, 1, 1)
    assert stack.update(serving(artifact, FAKE_ANSWER="three")) == "UPDATE_COMPLETE"
    assert answer(stack) == "three"


def test_a_stack_can_be_deleted_while_its_endpoint_is_created(stack, artifact, fake_tritons, monkeypatch):
    monkeypatch.setattr(engine, "_PATIENCE_S", 0.1)
    before = len(fake_tritons.started)
    stack.begin_create(serving(artifact, FAKE_STARTS="never"))
    while len(fake_tritons.started) == before:
        time.sleep(0.02)
    stack_id = stack.described()["StackId"]
    stack.cloudformation.delete_stack(StackName="stack")
    # As on AWS, an endpoint cannot be deleted while it is created.
    assert stack.described()["StackStatus"].endswith("_IN_PROGRESS")
    fake_tritons.started[-1].stop()
    while stack.settled(stack_id) != "DELETE_COMPLETE":
        time.sleep(0.02)
    assert names(stack) == (0, 0, 0)
    assert ("Endpoint", "CREATE_FAILED") in stack.events(stack_id)
