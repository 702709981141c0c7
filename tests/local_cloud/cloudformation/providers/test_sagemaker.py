"""SageMaker resources in a stack, with a stand-in for Triton behind the endpoints."""

import time

import pytest

from local_cloud.cloudformation import engine
from tests.local_cloud.cloudformation.stacks import resource
from tests.local_cloud.sagemaker.cloud import IMAGE, ROLE, tarball

ARCHIVE = tarball({"model/config.pbtxt": "", "model/1/model.py": ""})


@pytest.fixture
def artifact(stack):
    s3 = stack.account.client("s3")
    bucket = f"artifacts-{stack.account.account_id}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_object(Bucket=bucket, Key="model.tar.gz", Body=ARCHIVE)
    return f"s3://{bucket}/model.tar.gz"


def serving(artifact, *, tags=(), **environment):
    """Return a model, a configuration and an endpoint as the stacks of this project put them together."""
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


def test_an_endpoint_comes_changes_and_goes(stack, artifact):
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


def test_an_endpoint_that_does_not_come_up_says_why_and_leaves_nothing(stack, artifact):
    assert stack.create(serving(artifact, FAKE_STARTS="no")) == "ROLLBACK_COMPLETE"
    assert "no such tensor" in stack.reasons()
    assert names(stack) == (0, 0, 0)


def test_an_endpoint_that_rolls_back_fails_the_update(stack, artifact):
    stack.create(serving(artifact, FAKE_ANSWER="one"))
    assert stack.update(serving(artifact, FAKE_STARTS="no")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "no such tensor" in stack.reasons()
    assert answer(stack) == "one"
    assert names(stack) == (1, 1, 1)
    assert stack.update(serving(artifact, FAKE_ANSWER="three")) == "UPDATE_COMPLETE"
    assert answer(stack) == "three"


def test_tags_alone_replace_nothing(stack, artifact):
    stack.create(serving(artifact, FAKE_ANSWER="one", tags=[{"Key": "a", "Value": "1"}]))
    tagged = serving(artifact, FAKE_ANSWER="one", tags=[{"Key": "b", "Value": "2"}])
    assert stack.changes(tagged) == {"Model": ("Modify", "False")}
    stack.update(tagged)
    found = stack.account.client("sagemaker").list_tags(ResourceArn=stack.physical_ids()["Model"])["Tags"]
    assert found == [{"Key": "b", "Value": "2"}]


def test_a_stack_can_be_deleted_while_its_endpoint_is_being_made(stack, artifact, fake_tritons, monkeypatch):
    monkeypatch.setattr(engine, "_PATIENCE_S", 0.1)
    before = len(fake_tritons.started)
    stack.begin_create(serving(artifact, FAKE_STARTS="never"))
    while len(fake_tritons.started) == before:
        time.sleep(0.02)
    stack_id = stack.described()["StackId"]
    stack.cloudformation.delete_stack(StackName="stack")
    # As on AWS, an endpoint cannot be deleted before it has come up, or failed to.
    assert stack.described()["StackStatus"].endswith("_IN_PROGRESS")
    fake_tritons.started[-1].stop()
    while stack.settled(stack_id) != "DELETE_COMPLETE":
        time.sleep(0.02)
    assert names(stack) == (0, 0, 0)
    assert ("Endpoint", "CREATE_FAILED") in stack.events(stack_id)
