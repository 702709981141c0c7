"""`rollback --now`: the retained configuration serves at once, on a local cloud with the lock in git.

The local cloud has no inference components: a strict stand-in takes their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from packages.local_cloud.tests.conftest import (  # noqa: F401 - fixtures
    Account,
    account,
    running_cloud,
    shared,
)
from tests.git import Repository
from tests.manifests import manifest
from tests.operations.destruction.retained_site import BAD, ENDPOINT, STACK, Deployment
from tests.operations.strict_aws import checked, client_error
from tests.projects import edit, write_project
from tests.records.test_locks import BUILT
from tritonstack.base.paths import Project
from tritonstack.operations.destruction.retained import ServingResource
from tritonstack.operations.locks import rollback_now
from tritonstack.operations.locks.rollback import RollbackPlan, as_planned, plan_rollback
from tritonstack.operations.locks.rollback_now import Switch, plan_switches, switch
from tritonstack.operations.locks.rollback_targets import RollbackError
from tritonstack.operations.locks.versions import lock_history
from tritonstack.project.loading import load_workspace
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_writing import add_to_lock
from tritonstack.records.locks import RolledBack

BACK = RolledBack(instead_of="", as_of="", by="ann", at="2026-11-25T08:30:00Z")
OLD, NEW = "11" * 32, "22" * 32


@dataclass(frozen=True)
class Incident:
    """A project whose lock named OLD, then NEW, and what a rollback does to it."""

    project: Project

    @property
    def workspace(self) -> Workspace:
        return load_workspace(self.project, "dev")

    def planned(self) -> tuple[Workspace, RollbackPlan]:
        plan = plan_rollback(self.workspace, "search", lock_history(self.project, "dev"))
        return as_planned(self.workspace, plan, BACK), plan


def incident_in(root: Path, account_id: str = "111111111111") -> Incident:
    root.mkdir()
    project = write_project(root)
    edit(project.environment_file("dev"), "1" * 12, account_id)
    repository = Repository(root)
    for digest in (OLD, NEW):
        add_to_lock(project.lock_file("dev"), [manifest("minilm", digest=digest)], built=BUILT)
        repository.commit(digest[:2])
    return Incident(project)


@pytest.fixture
def incident(tmp_path: Path, account: Account) -> Incident:  # noqa: F811
    return incident_in(tmp_path / "project", account.account_id)


@pytest.fixture
def deployment(incident: Incident, account: Account) -> Iterator[Deployment]:  # noqa: F811
    """The endpoint, updated from OLD to NEW."""
    made = Deployment(account, bucket=incident.workspace.spec.artifact_bucket, versions=(OLD, NEW, BAD))
    made.create(OLD)
    made.update(NEW)
    return made


def planned(incident: Incident, deployment: Deployment) -> list[Switch]:
    after, plan = incident.planned()
    return plan_switches(deployment.cloud, after, plan)


def test_the_retained_configuration_serves_with_the_running_instances(
    incident: Incident, deployment: Deployment
) -> None:
    capacity = {"VariantName": "main", "DesiredInstanceCount": 2}
    deployment.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=ENDPOINT, DesiredWeightsAndCapacities=[capacity]
    )
    deployment.settle()
    (change,) = planned(incident, deployment)
    assert not change.done
    switch(deployment.cloud, change, on_change=lambda _: None)
    assert deployment.version_of(deployment.active) == OLD
    (variant,) = deployment.sagemaker.describe_endpoint(EndpointName=ENDPOINT)["ProductionVariants"]
    assert variant["DesiredInstanceCount"] == 2
    # Repeated after a kill, it changes nothing; then the stack catches up.
    assert planned(incident, deployment) == [replace(change, done=True)]
    deployment.deploy(OLD)
    assert deployment.version_of(deployment.active) == OLD
    assert deployment.active != change.target


def test_no_alarm_stops_it(incident: Incident, deployment: Deployment) -> None:
    """The alarm that made somebody roll back is still firing."""
    (change,) = planned(incident, deployment)
    switch(deployment.cloud, change, on_change=lambda _: None)
    described = deployment.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    used = described["LastDeploymentConfig"]
    assert "AutoRollbackConfiguration" not in used
    policy = used["BlueGreenUpdatePolicy"]
    routing = policy["TrafficRoutingConfiguration"]
    assert (routing["Type"], policy["TerminationWaitInSeconds"]) == ("ALL_AT_ONCE", 0)


def test_a_configuration_that_was_rolled_back_before_is_skipped(
    incident: Incident, deployment: Deployment
) -> None:
    """The newest retained configuration serves something else."""
    deployment.update(BAD)
    (change,) = planned(incident, deployment)
    assert deployment.version_of(change.target) == OLD


@pytest.mark.parametrize("cause", ["deleted", "another type", "no endpoint", "no active configuration"])
def test_what_needs_a_deployment_is_rejected(incident: Incident, deployment: Deployment, cause: str) -> None:
    sagemaker = deployment.sagemaker
    (change,) = planned(incident, deployment)
    if cause == "deleted":
        sagemaker.delete_endpoint_config(EndpointConfigName=change.target)
    elif cause == "another type":
        assert deployment.stack.update(deployment.resources(NEW, "ml.m7i.large")) == "UPDATE_COMPLETE"
    elif cause == "no endpoint":
        deployment.stack.delete()
    else:
        sagemaker.delete_endpoint_config(EndpointConfigName=deployment.active)
    with pytest.raises(RollbackError) as caught:
        planned(incident, deployment)
    assert caught.value.code == "TS421"


class StrictComponents:
    """SageMaker with one inference component; update and delete only what AWS's model of the API allows."""

    def __init__(self, models: dict[str, str], *, running: str, copies: int) -> None:
        self.models, self.updates = models, list[dict[str, Any]]()
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
        self.component |= {"Specification": parameters["Specification"]}


@pytest.mark.parametrize(("copies", "batch"), [(1, 1), (3, 1), (4, 2), (0, 1)])
def test_a_component_gets_the_retained_model_and_keeps_its_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: int, batch: int
) -> None:
    incident = incident_in(tmp_path / "project")
    edit(
        incident.project.environment_file("dev"),
        "instance_type: ml.c7i.xlarge",
        "instance_type: ml.c7i.xlarge\n    components: {min_copies: 1, memory_mb: 1024, cpus: 1}",
    )
    bucket = incident.workspace.spec.artifact_bucket
    models = {
        name: f"s3://{bucket}/models/minilm/{digest}/model.tar.gz"
        for name, digest in (("Model-new", NEW), ("Model-old", OLD))
    }
    cloud: Any = StrictComponents(models, running="Model-new", copies=copies)
    retained = [ServingResource("Model", name, STACK, datetime(2026, 11, 1, tzinfo=UTC)) for name in models]
    monkeypatch.setattr(rollback_now, "serving_resources", lambda *_: retained)
    after, plan = incident.planned()
    (change,) = plan_switches(cloud, after, plan)
    assert (change.target, change.done) == ("Model-old", False)
    switch(cloud, change, on_change=lambda _: None)
    (update,) = cloud.updates
    assert update["Specification"] == {
        "ModelName": "Model-old",
        "StartupParameters": {"ContainerStartupHealthCheckTimeoutInSeconds": 600},
        "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024},
    }
    assert "RuntimeConfig" not in update
    size = update["DeploymentConfig"]["RollingUpdatePolicy"]["MaximumBatchSize"]
    assert size == {"Type": "COPY_COUNT", "Value": batch}
    (again,) = plan_switches(cloud, after, plan)
    assert again.done
    switch(cloud, again, on_change=lambda _: None)
    assert len(cloud.updates) == 1
    cloud.models.pop("Model-old")
    cloud.component["Specification"]["ModelName"] = "Model-new"
    with pytest.raises(RollbackError):
        plan_switches(cloud, after, plan)
