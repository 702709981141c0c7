"""Replaced configurations and models: retained, and never deleted while an endpoint may serve them.

CloudFormation of the local cloud reports success if SageMaker rolls an update back.
"""

from __future__ import annotations

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
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, ROLE, tarball
from tests.credentials import variables_of
from tritonstack.base import naming
from tritonstack.operations.audit.found import AuditScope
from tritonstack.operations.audit.report import Item, audit
from tritonstack.operations.aws import Cloud
from tritonstack.operations.destruction.destroy import destroy_environment, preview_destruction
from tritonstack.operations.destruction.reaping import expiring_environments, reap
from tritonstack.operations.retained import KEPT, delete_replaced, live_endpoints
from tritonstack.operations.running import RolledBackError, require_running

BASE, ENDPOINT, STACK = "tritonstack-dev", "tritonstack-dev-search", "tritonstack-dev-endpoint-search"
NOW, PAST, FUTURE = datetime(2030, 1, 1, tzinfo=UTC), "2029-12-31T00:00:00Z", "2030-01-02T00:00:00Z"
ARCHIVE = tarball({"model/config.pbtxt": "", "model/1/model.py": ""})
BAD = "bad"
"""The version of a model that does not start."""


class Deployment:
    """An endpoint's stack, with its policies and tags as in the project's templates."""

    def __init__(self, account: Account, stack: str = STACK, **tags: str) -> None:  # noqa: F811
        self.stack = StackDriver(account, stack)
        self.cloud = Cloud(
            account.account_id,
            account.region,
            variables_of(account.endpoint_url, account.account_id, region=account.region),
        )
        self.tags = {"project": "tritonstack", "environment": "dev", naming.OWNER_TAG: stack, **tags}
        self.sagemaker = self.cloud.client("sagemaker")
        bucket = f"artifacts-{account.account_id}"
        s3 = account.client("s3")
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": account.region})
        for version in ("1", "2", "3", "4", "5", "6", BAD):
            s3.put_object(Bucket=bucket, Key=f"models/minilm/{version}/model.tar.gz", Body=ARCHIVE)
        self._models = f"s3://{bucket}/models/minilm"

    def resources(self, version: str) -> dict[str, Any]:
        retained = {"UpdateReplacePolicy": "Retain", "DeletionPolicy": "Delete"}
        tags = [{"Key": key, "Value": value} for key, value in self.tags.items()]
        variant = {
            "VariantName": "main",
            "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
            "InstanceType": "ml.c7i.large",
            "InitialInstanceCount": 1,
        }
        container = {
            "Image": IMAGE,
            "ModelDataUrl": f"{self._models}/{version}/model.tar.gz",
            "Environment": {"FAKE_STARTS": "no" if version == BAD else "yes"},
        }
        config = {"Fn::GetAtt": ["Config", "EndpointConfigName"]}
        kinds = {
            "Model": {"ExecutionRoleArn": ROLE, "PrimaryContainer": container, "Tags": tags},
            "EndpointConfig": {"ProductionVariants": [variant], "Tags": tags},
            "Endpoint": {"EndpointName": ENDPOINT, "EndpointConfigName": config},
        }
        made = {kind: resource(f"AWS::SageMaker::{kind}", **values) for kind, values in kinds.items()}
        return {
            "Model": made["Model"] | retained,
            "Config": made["EndpointConfig"] | retained,
            "Endpoint": made["Endpoint"],
        }

    def create(self, version: str = "1") -> None:
        sections = {"Description": "tritonstack: endpoint", "Tags": self._stack_tags()}
        assert self.stack.create(self.resources(version), **sections) == "CREATE_COMPLETE"

    def update(self, version: str) -> None:
        sections = {"Description": "tritonstack: endpoint", "Tags": self._stack_tags()}
        assert self.stack.update(self.resources(version), **sections) == "UPDATE_COMPLETE"

    def deploy(self, version: str) -> list[str]:
        """Update the endpoint as `tritonstack deploy` does, and return what was deleted."""
        self.update(version)
        require_running(self.cloud, [STACK])
        live = live_endpoints(self.cloud, BASE)
        return delete_replaced(self.cloud, BASE, [STACK], live, on_update=lambda _: None)

    def _stack_tags(self) -> list[dict[str, str]]:
        return [{"Key": key, "Value": value} for key, value in self.tags.items() if key != naming.OWNER_TAG]

    @property
    def active(self) -> str:
        described = self.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
        assert described["EndpointStatus"] == "InService"
        return str(described["EndpointConfigName"])

    def version_of(self, config: str) -> str:
        described = self.sagemaker.describe_endpoint_config(EndpointConfigName=config)
        (variant,) = described["ProductionVariants"]
        model = self.sagemaker.describe_model(ModelName=variant["ModelName"])
        return str(model["PrimaryContainer"]["ModelDataUrl"].split("/")[-2])

    def versions(self) -> list[str]:
        """The versions of all configurations, oldest first; their models exist, and no others."""
        listed = self.sagemaker.list_endpoint_configs(SortOrder="Ascending")["EndpointConfigs"]
        versions = [self.version_of(item["EndpointConfigName"]) for item in listed]
        assert len(self.sagemaker.list_models()["Models"]) == len(versions)
        return versions

    def audited(self) -> list[Item]:
        return list(
            audit(self.cloud, AuditScope(BASE, {"project": "tritonstack", "environment": "dev"})).items
        )


@pytest.fixture
def deployment(account: Account) -> Deployment:  # noqa: F811
    return Deployment(account)


def test_an_endpoint_stays_updatable_after_a_silent_rollback(deployment: Deployment) -> None:
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


def test_the_last_replaced_configurations_are_kept(deployment: Deployment) -> None:
    deployment.create("1")
    deleted = [len(deployment.deploy(version)) for version in ("2", "3", "4", "5")]
    assert (KEPT, deleted) == (2, [0, 0, 2, 2])  # a configuration and its model
    assert deployment.versions() == ["3", "4", "5"]


def test_what_is_newer_than_the_running_configuration_is_kept(deployment: Deployment) -> None:
    """Another deployment has created them, and its update has not begun yet."""
    for version in ("1", "2", "3"):
        (deployment.update if version != "1" else deployment.create)(version)
    config = deployment.sagemaker.describe_endpoint_config(EndpointConfigName=deployment.active)
    tags = [{"Key": naming.OWNER_TAG, "Value": STACK}]
    model = {"Image": IMAGE, "ModelDataUrl": deployment._models + "/6/model.tar.gz"}
    deployment.sagemaker.create_model(
        ModelName="coming", ExecutionRoleArn=ROLE, PrimaryContainer=model, Tags=tags
    )
    variants = [{**config["ProductionVariants"][0], "ModelName": "coming"}]
    deployment.sagemaker.create_endpoint_config(
        EndpointConfigName="Coming", ProductionVariants=variants, Tags=tags
    )
    live = live_endpoints(deployment.cloud, BASE)
    assert delete_replaced(deployment.cloud, BASE, [STACK], live, on_update=lambda _: None) == []
    assert deployment.versions() == ["1", "2", "3", "6"]


def test_nothing_is_deleted_if_what_runs_is_unknown(deployment: Deployment) -> None:
    deployment.create("1")
    for version in ("2", "3", "4"):
        deployment.update(version)
    deployment.sagemaker.delete_endpoint_config(EndpointConfigName=deployment.active)
    (live,) = live_endpoints(deployment.cloud, BASE)
    assert live.missing == deployment.active
    assert delete_replaced(deployment.cloud, BASE, [STACK], [live], on_update=lambda _: None) == []


def test_live_endpoints_name_their_models_data(deployment: Deployment) -> None:
    deployment.create("1")
    deployment.update(BAD)
    (live,) = live_endpoints(deployment.cloud, BASE)
    assert live.configs == {deployment.active.lower()}
    assert live.data == {f"{deployment._models}/1/model.tar.gz"}


def test_audit_counts_retained_resources_to_their_stack_while_it_exists(deployment: Deployment) -> None:
    deployment.create("1")
    deployment.update("2")
    retained = [item for item in deployment.audited() if item.type.startswith("AWS::SageMaker::")]
    assert {item.stack for item in retained} == {STACK}
    assert len(retained) == 5  # the endpoint, and two models and configurations


@pytest.mark.parametrize("command", ["destroy", "reap"])
def test_what_outlived_its_stack_is_found_by_tag_and_deleted(
    account: Account,  # noqa: F811
    command: str,
) -> None:
    """As after `cdk destroy`."""
    deployment = Deployment(account, expires=PAST, owner="ann")
    deployment.create("1")
    deployment.update(BAD)
    deployment.stack.delete()
    orphans = {item.type for item in deployment.audited() if item.stack is None}
    assert orphans >= {"AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"}
    assert len(preview_destruction(deployment.cloud, BASE).replaced) == 2
    (state,) = expiring_environments(deployment.cloud, prefix="tritonstack", now=NOW)
    assert (state.base, state.owner, state.verdict, state.stacks) == (BASE, "ann", "expired", ())
    if command == "reap":
        assert reap(deployment.cloud, BASE, now=NOW, on_update=lambda _: None)
    else:
        assert len(destroy_environment(deployment.cloud, BASE, on_update=lambda _: None).replaced) == 2
    assert deployment.audited() == []
    assert expiring_environments(deployment.cloud, prefix="tritonstack", now=NOW) == []


def test_an_environment_that_was_extended_or_has_another_name_keeps_its_resources(
    account: Account,  # noqa: F811
) -> None:
    deployment = Deployment(account, expires=FUTURE, owner="ann")
    deployment.create("1")
    deployment.update("2")
    deployment.stack.delete()
    assert not reap(deployment.cloud, BASE, now=NOW, on_update=lambda _: None)
    destroy_environment(deployment.cloud, "tritonstack-dev-two", on_update=lambda _: None)
    destroy_environment(deployment.cloud, "tritonstack", on_update=lambda _: None)
    assert deployment.versions() == ["1"]


def test_destroying_deletes_stack_and_retained_resources(deployment: Deployment) -> None:
    deployment.create("1")
    deployment.update("2")
    assert len(destroy_environment(deployment.cloud, BASE, on_update=lambda _: None).replaced) == 2
    assert deployment.audited() == []
