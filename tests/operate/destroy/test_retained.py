"""Replaced configurations and models: retained, and never deleted while an endpoint may serve them.

CloudFormation of the local cloud reports success if SageMaker rolls an update back.
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, resource
from packages.local_cloud.tests.conftest import (  # noqa: F401 - fixtures
    Account,
    account,
    running_cloud,
    shared,
)
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, role_of
from tests.operate.destroy.retained_site import BAD, BASE, ENDPOINT, STACK, WORSE, Deployment
from tests.operate.strict_aws import OnePage
from tritonstack.base import naming
from tritonstack.operate.destroy import retained
from tritonstack.operate.destroy.deletion import contents_of
from tritonstack.operate.destroy.environment import destroy_environment, preview_destruction
from tritonstack.operate.destroy.reap import destroy_if_expired, expiring_environments
from tritonstack.operate.destroy.retained import KEPT, delete_replaced, live_endpoints, tagged_models
from tritonstack.operate.shared.running import RolledBackError, wait_until_served
from tritonstack.operate.shared.stacks import DeletionError

NOW, PAST, FUTURE = datetime(2030, 1, 1, tzinfo=UTC), "2029-12-31T00:00:00Z", "2030-01-02T00:00:00Z"


@pytest.fixture
def deployment(account):  # noqa: F811
    return Deployment(account)


def test_an_endpoint_stays_updatable_after_a_silent_rollback(deployment):
    """The sequence that deletes what serves if nothing is retained."""
    deployment.create("1")
    deployment.deploy("2")
    served = deployment.active
    with pytest.raises(RolledBackError):
        deployment.deploy(BAD)
    assert deployment.active == served
    assert deployment.versions() == ["1", "2", BAD]
    deployment.deploy("3")
    assert deployment.version_of(deployment.active) == "3"
    # The last two that were replaced stay, whether or not they have served.
    assert deployment.versions() == ["2", BAD, "3"]


def test_a_removed_variant_that_serves_is_kept(deployment):
    """Its model leaves the template in the update that SageMaker rolls back."""
    deployment.create("1", challenger="2")
    served = deployment.active
    models = retained.models_of(deployment.cloud, served)
    assert models is not None
    for version in (BAD, WORSE):
        deployment.update(version)
        assert deployment.active == served
        assert retained.models_of(deployment.cloud, served) == models
        for model in models:
            deployment.sagemaker.describe_model(ModelName=model)
    deployment.deploy("3")
    assert deployment.version_of(deployment.active) == "3"
    destroy_environment(deployment.cloud, BASE, on_update=lambda _: None)
    assert deployment.audited() == []


def test_what_serves_is_kept_if_the_rollback_of_the_stack_is_rolled_back(deployment):
    """The stack returns to an artifact that no longer starts, so SageMaker returns to the new one."""
    deployment.create("1")
    bucket, _, prefix = deployment.models.removeprefix("s3://").partition("/")
    deployment.cloud.client("s3").delete_object(Bucket=bucket, Key=f"{prefix}/1/model.tar.gz")
    ssm = deployment.cloud.client("ssm")
    ssm.put_parameter(Name="/taken", Value="x", Type="String")
    taken = resource("AWS::SSM::Parameter", Name="/taken", Value="y", Type="String")
    resources = deployment.resources("2") | {"Taken": taken | {"DependsOn": "Endpoint"}}
    assert deployment.stack.update(resources) == "UPDATE_ROLLBACK_COMPLETE"
    assert deployment.version_of(deployment.active) == "2"
    ssm.delete_parameter(Name="/taken")
    deployment.deploy("3")
    assert deployment.version_of(deployment.active) == "3"


def test_a_first_deployment_that_failed_can_be_repeated(deployment):
    """What the failed one created is retained; CloudFormation names it, so no name collides."""
    deployment.create(BAD, status="ROLLBACK_COMPLETE")
    assert deployment.stack.delete() == "DELETE_COMPLETE"
    deployment.create("1")
    assert deployment.versions() == [BAD, "1"]
    assert deployment.deploy("2") == []
    destroy_environment(deployment.cloud, BASE, on_update=lambda _: None)
    assert deployment.audited() == []


def test_the_last_replaced_configurations_are_kept(deployment):
    deployment.create("1")
    deleted = [len(deployment.deploy(version)) for version in ("2", "3", "4", "5")]
    assert (KEPT, deleted) == (2, [0, 0, 2, 2])  # a configuration and its model
    assert deployment.versions() == ["3", "4", "5"]


def test_the_configuration_that_ran_before_failed_attempts_is_kept(deployment):
    deployment.create("1")
    deployment.deploy("2")
    ran = deployment.active
    for version in (BAD, WORSE):
        deployment.update(version)
        assert deployment.active == ran
    deployment.deploy("3")
    assert deployment.versions() == ["2", BAD, WORSE, "3"]


def test_what_is_newer_than_the_running_configuration_is_kept(deployment):
    """Another deployment has created them, and its update has not begun yet."""
    for version in ("1", "2", "3"):
        (deployment.update if version != "1" else deployment.create)(version)
    config = deployment.sagemaker.describe_endpoint_config(EndpointConfigName=deployment.active)
    tags = [{"Key": naming.OWNER_TAG, "Value": STACK}]
    model = {"Image": IMAGE, "ModelDataUrl": deployment.models + "/6/model.tar.gz"}
    deployment.sagemaker.create_model(
        ModelName="coming", ExecutionRoleArn=role_of(deployment.sagemaker), PrimaryContainer=model, Tags=tags
    )
    variants = [{**config["ProductionVariants"][0], "ModelName": "coming"}]
    deployment.sagemaker.create_endpoint_config(
        EndpointConfigName="Coming", ProductionVariants=variants, Tags=tags
    )
    live = live_endpoints(deployment.cloud, BASE)
    assert delete_replaced(deployment.cloud, BASE, [STACK], live, on_update=lambda _: None) == []
    assert deployment.versions() == ["1", "2", "3", "6"]


def test_nothing_is_deleted_unless_the_states_of_endpoint_and_components_are_known(deployment, monkeypatch):
    deployment.create("1")
    for version in ("2", "3", "4"):
        deployment.update(version)
    cloud, (earlier,) = deployment.cloud, live_endpoints(deployment.cloud, BASE)
    assert earlier.missing is None
    describe = deployment.sagemaker.describe_endpoint
    status = ""
    changed = lambda **name: describe(**name) | {"EndpointStatus": status}  # noqa: E731
    monkeypatch.setattr(deployment.sagemaker, "describe_endpoint", changed)
    for status in ("Creating", "RollingBack", "UpdateRollbackFailed", "Failed", "OutOfService", "Deleting"):
        (now,) = live_endpoints(cloud, BASE)
        assert status in str(now.missing)
        for live in (earlier, now):
            assert delete_replaced(cloud, BASE, [STACK], [live], on_update=lambda _: None) == []
    assert deployment.versions() == ["1", "2", "3", "4"]
    monkeypatch.undo()
    active = deployment.active
    deployment.sagemaker.delete_endpoint_config(EndpointConfigName=active)
    (now,) = live_endpoints(cloud, BASE)
    assert active in str(now.missing)
    assert delete_replaced(cloud, BASE, [STACK], [now], on_update=lambda _: None) == []


@pytest.mark.parametrize("status", ["InService", "Updating", "Creating", "Failed", "Deleting"])
def test_a_component_that_is_not_in_service_makes_unknown_what_runs(status):
    class StrictComponents:
        def get_paginator(self, operation: str) -> OnePage:
            assert operation == "list_inference_components"
            return OnePage(lambda **_: {"InferenceComponents": [{"InferenceComponentName": "c"}]})

        def describe_inference_component(self, *, InferenceComponentName: str) -> dict[str, Any]:  # noqa: N803
            assert InferenceComponentName == "c"
            return {"InferenceComponentStatus": status, "Specification": {"ModelName": "M"}}

    models, changing = retained._component_models(StrictComponents(), ENDPOINT)
    assert (models, changing is None) == ({"M"}, status == "InService")


def test_what_an_endpoint_was_switched_to_meanwhile_is_kept(deployment):
    deployment.create("1")
    first = deployment.active
    for version in ("2", "3", "4"):
        deployment.update(version)
    live = live_endpoints(deployment.cloud, BASE)
    deployment.sagemaker.update_endpoint(EndpointName=ENDPOINT, EndpointConfigName=first)
    assert delete_replaced(deployment.cloud, BASE, [STACK], live, on_update=lambda _: None) == []
    deployment.settle()
    assert deployment.version_of(deployment.active) == "1"


def test_what_an_endpoint_of_another_name_uses_outlives_the_environment(deployment):
    deployment.create("1")
    first = deployment.active
    deployment.update("2")
    deployment.sagemaker.create_endpoint(EndpointName="another", EndpointConfigName=first)
    deployment.stack.delete()
    wait_until_served(deployment.cloud, ["another"], on_change=lambda *_: None)
    assert len(destroy_environment(deployment.cloud, BASE, on_update=lambda _: None).replaced) == 2
    assert deployment.versions() == ["1"]


@pytest.mark.parametrize("name", ["another", f"{BASE}-by-hand"])
def test_only_endpoints_of_the_environment_must_be_in_a_known_state(deployment, monkeypatch, name):
    deployment.create("1")
    deployment.update("2")
    deployment.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=deployment.active)
    wait_until_served(deployment.cloud, [name], on_change=lambda *_: None)
    describe = deployment.sagemaker.describe_endpoint
    failed = lambda **of: describe(**of) | {"EndpointStatus": "Failed"}  # noqa: E731
    monkeypatch.setattr(deployment.sagemaker, "describe_endpoint", failed)
    deployment.stack.delete()
    if name == "another":
        assert len(destroy_environment(deployment.cloud, BASE, on_update=lambda _: None).replaced) == 2
        assert deployment.versions() == ["2"]
        return
    with pytest.raises(DeletionError) as caught:
        destroy_environment(deployment.cloud, BASE, on_update=lambda _: None)
    assert f"{name} is Failed" in caught.value.message
    assert deployment.versions() == ["1", "2"]


def test_what_an_endpoint_runs_and_its_stack_has_retained(deployment):
    deployment.create("1")
    deployment.update(BAD)
    (live,) = live_endpoints(deployment.cloud, BASE)
    assert live.configs == {deployment.active.lower()}
    assert live.data == {f"{deployment.models}/1/model.tar.gz"}
    assert tagged_models(deployment.cloud, BASE) == (
        {IMAGE},
        {f"{deployment.models}/{version}/model.tar.gz" for version in ("1", BAD)},
    )
    assert live.images == {IMAGE}
    audited = [item.stack for item in deployment.audited() if item.type.startswith("AWS::SageMaker::")]
    assert audited == [STACK] * 5  # the endpoint, and two models and configurations, one retained each


@pytest.mark.parametrize("command", ["destroy", "reap"])
def test_what_outlived_its_stack_is_found_by_tag_and_deleted(
    account,  # noqa: F811
    command,
):
    """As after `cdk destroy`."""
    deployment = Deployment(account, expires=PAST, owner="ann").outlived()
    orphans = {item.type for item in deployment.audited() if item.stack is None}
    assert orphans >= {"AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"}
    assert len(preview_destruction(deployment.cloud, BASE).replaced) == 4
    (state,) = expiring_environments(deployment.cloud, prefix="tritonstack", now=NOW)
    assert (state.base, state.owner, state.verdict, state.stacks) == (BASE, "ann", "expired", ())
    if command == "reap":
        assert destroy_if_expired(deployment.cloud, BASE, now=NOW, on_update=lambda _: None)
    else:
        assert len(destroy_environment(deployment.cloud, BASE, on_update=lambda _: None).replaced) == 4
    assert deployment.audited() == []
    assert expiring_environments(deployment.cloud, prefix="tritonstack", now=NOW) == []


@pytest.mark.parametrize("cause", ["project", "environment", "extended", "another stack"])
def test_what_must_not_be_deleted_outlives_its_stack(
    account,  # noqa: F811
    cause,
):
    """Another team's environment had the name, it was extended, or a stack without an expiry remains."""
    marks = {cause: "theirs"} if cause in ("project", "environment") else {}
    expires = FUTURE if cause == "extended" else PAST
    deployment = Deployment(account, expires=expires, owner="ann", **marks).outlived()
    if cause == "another stack":
        topic = {"Topic": resource("AWS::SNS::Topic")}
        foundation = StackDriver(account, f"{BASE}-foundation")
        assert foundation.create(topic, Description="tritonstack: shared") == "CREATE_COMPLETE"
        assert expiring_environments(deployment.cloud, prefix="tritonstack", now=NOW) == []
    assert not destroy_if_expired(deployment.cloud, BASE, now=NOW, on_update=lambda _: None)
    for base in ("tritonstack-dev-two", "tritonstack", *([BASE] if marks else [])):
        assert preview_destruction(deployment.cloud, base).replaced == ()
        assert destroy_environment(deployment.cloud, base, on_update=lambda _: None).replaced == ()
    assert deployment.versions() == ["1", "2"]


@pytest.mark.parametrize("index", ["current", "late"])
def test_destroying_deletes_stack_and_retained_resources(deployment, monkeypatch, index):
    """Also just after a deployment, when the index of tags does not list what it made."""
    deployment.create("1")
    if index == "current":
        deployment.update("2")
    assert contents_of(deployment.cloud, STACK).retained == ()  # no data, so nothing to confirm
    if index == "late":
        monkeypatch.setattr(retained, "serving_resources", lambda *_: [])
    destroyed = destroy_environment(deployment.cloud, BASE, on_update=lambda _: None)
    assert (destroyed.retained, len(destroyed.replaced)) == ((), 4 if index == "current" else 2)
    assert deployment.audited() == []
