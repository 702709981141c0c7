"""`rollback --now`: the retained configuration serves at once, on a local cloud with the lock in git.

The local cloud has no inference components: a strict stand-in takes their place.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from packages.local_cloud.tests.conftest import (  # noqa: F401 - fixtures
    Account,
    account,
    running_cloud,
    shared,
)
from tests.operate.destroy.retained_site import BAD, ENDPOINT, STACK, Deployment
from tests.operate.locks.locked_project import LockedProject
from tests.operate.strict_aws import checked, client_error
from tritonstack.base.error_kinds import NotDeployedError
from tritonstack.files.records.locks import RolledBack
from tritonstack.operate.deploy.switching import Switch, switch, to_deployed
from tritonstack.operate.destroy.retained import ServingResource
from tritonstack.operate.rollback import rollback_now
from tritonstack.operate.rollback.rollback_now import plan_switches, switch_back
from tritonstack.operate.rollback.rollback_targets import RollbackError, as_planned, plan_rollback
from tritonstack.operate.shared import running
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.running import endpoint_states

BACK = RolledBack(instead_of="", as_of="", by="ann", at="2026-11-25T08:30:00Z")
OLD, NEW = "11" * 32, "22" * 32


class Incident(LockedProject):
    """A project whose lock named OLD, then NEW, and what a rollback does to it."""

    def __init__(self, root: Path, account_id: str = "111111111111") -> None:
        super().__init__(root)
        self.edit("1" * 12, account_id)
        self.lock("11", "22")

    def switches(self, cloud: Cloud) -> list[Switch]:
        plan = plan_rollback(self.workspace, "search", self.history)
        return plan_switches(cloud, as_planned(self.workspace, plan, BACK), plan)


@pytest.fixture
def incident(tmp_path, account):  # noqa: F811
    return Incident(tmp_path / "project", account.account_id)


@pytest.fixture
def deployment(incident, account):  # noqa: F811
    """The endpoint, updated from OLD to NEW."""
    endpoint = Deployment(account, bucket=incident.workspace.spec.artifact_bucket, versions=(OLD, NEW, BAD))
    endpoint.create(OLD)
    endpoint.update(NEW)
    return endpoint


def go_back(incident: Incident, deployment: Deployment) -> dict[str, Any]:
    """Switch the endpoint back; return the settings of the update."""
    (change,) = incident.switches(deployment.cloud)
    switch_back(deployment.cloud, change, on_change=lambda _: None)
    assert deployment.version_of(deployment.active) == OLD
    described = deployment.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    settings: dict[str, Any] = described["LastDeploymentConfig"]
    return settings


def scale_to_two(deployment: Deployment) -> None:
    capacity = {"VariantName": "main", "DesiredInstanceCount": 2}
    deployment.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=ENDPOINT, DesiredWeightsAndCapacities=[capacity]
    )
    deployment.settle()


def test_the_retained_configuration_serves_with_the_running_instances(incident, deployment):
    """At once, and no alarm stops it: the one that made somebody roll back is still firing."""
    scale_to_two(deployment)
    (change,) = incident.switches(deployment.cloud)
    assert not change.done
    used = go_back(incident, deployment)
    policy = used["BlueGreenUpdatePolicy"]
    assert policy["TrafficRoutingConfiguration"]["Type"] == "ALL_AT_ONCE"
    assert policy["TerminationWaitInSeconds"] == 0
    assert "AutoRollbackConfiguration" not in used
    (variant,) = deployment.sagemaker.describe_endpoint(EndpointName=ENDPOINT)["ProductionVariants"]
    assert variant["DesiredInstanceCount"] == 2
    # Repeated after a kill, it changes nothing; then the stack catches up.
    assert incident.switches(deployment.cloud) == [replace(change, done=True, update={})]
    deployment.deploy(OLD)
    assert deployment.version_of(deployment.active) == OLD
    assert deployment.active != change.target


def test_deploying_after_it_has_the_alarms_of_the_stack_again(incident, deployment):
    """The stack still has the new configuration, and the last update of the endpoint had no alarms."""
    go_back(incident, deployment)
    (state,) = endpoint_states(deployment.cloud, STACK)
    assert state.is_outdated
    routing = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}
    policy = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": {"Ref": "Wait"}}
    alarms = {"Alarms": [{"AlarmName": "errors"}]}
    rollout = {"BlueGreenUpdatePolicy": policy, "AutoRollbackConfiguration": alarms}
    endpoint = {"Type": "AWS::SageMaker::Endpoint", "Properties": {"DeploymentConfig": rollout}}
    template = {"Resources": {"Endpoint": endpoint}, "Parameters": {"Wait": {"Type": "Number", "Default": 1}}}
    deployment.cloud.client("cloudwatch").put_metric_alarm(
        AlarmName="errors",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        Namespace="n",
        MetricName="m",
        Period=60,
        Statistic="Sum",
        Threshold=1,
    )
    back = to_deployed(deployment.cloud, STACK, template, state)
    assert switch(deployment.cloud, back, on_change=lambda _: None) is None
    assert deployment.version_of(deployment.active) == NEW
    used = deployment.sagemaker.describe_endpoint(EndpointName=ENDPOINT)["LastDeploymentConfig"]
    assert used["AutoRollbackConfiguration"] == alarms
    assert used["BlueGreenUpdatePolicy"]["TerminationWaitInSeconds"] == 1
    with pytest.raises(NotDeployedError, match="gone"):
        to_deployed(deployment.cloud, "gone", template, state)


def test_a_configuration_that_was_rolled_back_before_is_skipped(incident, deployment):
    """The newest retained configuration serves something else."""
    deployment.update(BAD)
    (change,) = incident.switches(deployment.cloud)
    assert deployment.version_of(change.target) == OLD


@pytest.mark.parametrize("cause", ["deleted", "another type", "no endpoint", "no active configuration"])
def test_what_needs_a_deployment_is_rejected(incident, deployment, cause):
    sagemaker = deployment.sagemaker
    (change,) = incident.switches(deployment.cloud)
    if cause == "deleted":
        sagemaker.delete_endpoint_config(EndpointConfigName=change.target)
    elif cause == "another type":
        assert deployment.stack.update(deployment.resources(NEW, "ml.m7i.large")) == "UPDATE_COMPLETE"
    elif cause == "no endpoint":
        deployment.stack.delete()
    else:
        sagemaker.delete_endpoint_config(EndpointConfigName=deployment.active)
    with pytest.raises(RollbackError) as caught:
        incident.switches(deployment.cloud)
    assert caught.value.code == "TS421"


def test_an_endpoint_that_does_not_serve_is_not_switched(incident, deployment, monkeypatch):
    """SageMaker may name the new configuration and yet fail."""
    (change,) = incident.switches(deployment.cloud)
    switch_back(deployment.cloud, change, on_change=lambda _: None)
    described = deployment.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    failed = described | {"EndpointStatus": "UpdateRollbackFailed", "FailureReason": "no capacity"}
    sagemaker = deployment.cloud.client("sagemaker")
    monkeypatch.setattr(sagemaker, "describe_endpoint", lambda **_: failed)
    with pytest.raises(RollbackError) as caught:
        switch_back(deployment.cloud, replace(change, done=True), on_change=lambda _: None)
    assert caught.value.code == "TS507"
    assert "no capacity" in caught.value.message


def test_maintenance_is_waited_for(incident, deployment, monkeypatch):
    (change,) = incident.switches(deployment.cloud)
    sagemaker, statuses, reported = deployment.cloud.client("sagemaker"), ["SystemUpdating"], list[str]()
    describe, update = sagemaker.describe_endpoint, sagemaker.update_endpoint

    def maintained(**name: str) -> Any:
        return describe(**name) | ({"EndpointStatus": statuses.pop()} if statuses else {})

    def updated(**parameters: Any) -> None:
        assert not statuses
        update(**parameters)

    monkeypatch.setattr(running, "_POLL_S", 0.01)
    monkeypatch.setattr(sagemaker, "describe_endpoint", maintained)
    monkeypatch.setattr(sagemaker, "update_endpoint", updated)
    switch_back(deployment.cloud, change, on_change=reported.append)
    assert reported[0] == "SystemUpdating"
    assert deployment.version_of(deployment.active) == OLD


def test_a_rolling_rollout_needs_no_second_fleet(incident, deployment):
    scale_to_two(deployment)
    scaling = "scaling: {min_instances: 2, max_instances: 2}"
    rollout = "rollout: {strategy: rolling, batch_percent: 50}"
    incident.edit("ml.c7i.xlarge", f"ml.c7i.xlarge\n    {scaling}\n    {rollout}")
    size = {"Type": "CAPACITY_PERCENT", "Value": 50}
    rolling = {"MaximumBatchSize": size, "WaitIntervalInSeconds": 0}
    assert go_back(incident, deployment) == {"RollingUpdatePolicy": rolling}


OTHER_SETTINGS: tuple[tuple[str, str, object], ...] = (
    ("describe_endpoint_config", "KmsKeyId", "key"),
    ("describe_endpoint_config", "DataCaptureConfig", {"EnableCapture": True}),
    ("describe_endpoint_config", "AsyncInferenceConfig", {"OutputConfig": {"S3OutputPath": "s3://x/y"}}),
    ("describe_endpoint_config", "VpcConfig", {"Subnets": ["a"]}),
    ("describe_endpoint_config", "EnableNetworkIsolation", True),
    ("describe_model", "VpcConfig", {"Subnets": ["a"]}),
    ("describe_model", "EnableNetworkIsolation", True),
    ("describe_model", "ExecutionRoleArn", "role"),
)


def changed_for(names: tuple[str, ...], describe: Any, changed: dict[str, object], **named: str) -> Any:
    return describe(**named) | (changed if set(named.values()) & set(names) else {})


def test_only_artifacts_are_rolled_back(incident, deployment, monkeypatch):
    """Other settings are those of the environment file; the local cloud has few of them."""
    (change,) = incident.switches(deployment.cloud)
    sagemaker = deployment.cloud.client("sagemaker")
    config = sagemaker.describe_endpoint_config(EndpointConfigName=change.target)
    retained = (change.target, config["ProductionVariants"][0]["ModelName"])
    for call, part, value in OTHER_SETTINGS:
        describe = partial(changed_for, retained, getattr(sagemaker, call), {part: value})
        with monkeypatch.context() as patched:
            patched.setattr(sagemaker, call, describe)
            with pytest.raises(RollbackError) as caught:
                incident.switches(deployment.cloud)
        assert caught.value.code == "TS421"
        assert f"another {part} " in caught.value.message


@pytest.mark.parametrize(
    ("now", "then", "same"),
    [
        ({"Subnets": ["a", "b"]}, {"Subnets": ["b", "a"]}, True),
        ({"Subnets": ["a", "b"]}, {"Subnets": ["a"]}, False),
        (None, False, True),
        (False, True, False),
    ],
)
def test_settings_are_compared_by_what_they_mean(now, then, same):
    assert (rollback_now._unordered(now) == rollback_now._unordered(then)) is same


class StrictComponents:
    """SageMaker with one inference component; update and delete only what AWS's model of the API allows."""

    def __init__(self, models: dict[str, str], *, running: str, copies: int) -> None:
        self.models, self.updates, self.after = models, list[dict[str, Any]](), "InService"
        self.component = {
            "InferenceComponentName": f"{ENDPOINT}-component",
            "InferenceComponentStatus": "InService",
            "Specification": {
                "ModelName": running,
                "StartupParameters": {"ContainerStartupHealthCheckTimeoutInSeconds": 600},
                "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024},
            },
            "RuntimeConfig": {"DesiredCopyCount": copies, "CurrentCopyCount": copies},
        }

    def client(self, service: str) -> StrictComponents:
        assert service == "sagemaker"
        return self

    def describe_inference_component(self, **parameters: str) -> dict[str, Any]:
        checked("sagemaker", "DescribeInferenceComponent", parameters)
        assert parameters["InferenceComponentName"] == self.component["InferenceComponentName"]
        return self.component

    def describe_model(self, **parameters: str) -> dict[str, Any]:
        checked("sagemaker", "DescribeModel", parameters)
        if parameters["ModelName"] not in self.models:
            raise client_error("DescribeModel", "ValidationException", "Could not find model")
        return {"PrimaryContainer": {"ModelDataUrl": self.models[parameters["ModelName"]]}}

    def update_inference_component(self, **parameters: Any) -> None:
        checked("sagemaker", "UpdateInferenceComponent", parameters)
        self.updates.append(parameters)
        self.component |= {
            "Specification": parameters["Specification"],
            "InferenceComponentStatus": self.after,
        }


@pytest.mark.parametrize(("copies", "batch"), [(1, 1), (3, 1), (4, 2), (0, 1)])
def test_a_component_gets_the_retained_model_and_keeps_its_copies(tmp_path, monkeypatch, copies, batch):
    incident = Incident(tmp_path / "project")
    incident.edit("ml.c7i.xlarge", "ml.c7i.xlarge\n    components: {min_copies: 1, memory_mb: 1024, cpus: 1}")
    bucket = incident.workspace.spec.artifact_bucket
    models = {
        name: f"s3://{bucket}/models/minilm/{digest}/model.tar.gz"
        for name, digest in (("Model-new", NEW), ("Model-old", OLD))
    }
    cloud: Any = StrictComponents(models, running="Model-new", copies=copies)
    retained = [ServingResource("Model", name, STACK, datetime(2026, 11, 1, tzinfo=UTC)) for name in models]
    monkeypatch.setattr(rollback_now, "serving_resources", lambda *_: retained)
    (change,) = incident.switches(cloud)
    assert (change.target, change.done) == ("Model-old", False)
    switch_back(cloud, change, on_change=lambda _: None)
    (update,) = cloud.updates
    assert update["Specification"] == {
        "ModelName": "Model-old",
        "StartupParameters": {"ContainerStartupHealthCheckTimeoutInSeconds": 600},
        "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024},
    }
    assert "RuntimeConfig" not in update
    size = update["DeploymentConfig"]["RollingUpdatePolicy"]["MaximumBatchSize"]
    assert size == {"Type": "COPY_COUNT", "Value": batch}
    (again,) = incident.switches(cloud)
    assert again.done
    switch_back(cloud, again, on_change=lambda _: None)
    assert len(cloud.updates) == 1
    cloud.component["Specification"]["ModelName"], cloud.after = "Model-new", "Failed"
    with pytest.raises(RollbackError) as caught:
        switch_back(cloud, change, on_change=lambda _: None)
    assert caught.value.code == "TS507"
    cloud.models.pop("Model-old")
    cloud.component["Specification"]["ModelName"] = "Model-new"
    with pytest.raises(RollbackError):
        incident.switches(cloud)
