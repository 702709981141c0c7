"""The order of destruction, and what it retains, on moto's CloudFormation and S3."""

import json
from typing import Any

import pytest
from moto.cloudformation.models import cloudformation_backends

from tests.operate.shared.test_operations import TEMPLATE
from tritonstack.operate.destroy.deletion import Retained
from tritonstack.operate.destroy.environment import Destroyed, destroy_environment
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.stacks import CHANGE_SET, environment_stacks

BASE = "tritonstack-dev"
SHARED = ("foundation", "network", "monitoring")


def stand(cloud: Cloud, *names: str) -> None:
    for name in names:
        cloud.client("cloudformation").create_stack(StackName=f"{BASE}-{name}", TemplateBody=TEMPLATE)


def bucket(name: str, **more: str) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}, **more}


def stand_with(cloud: Cloud, stack: str, **resources: dict[str, Any]) -> None:
    body = json.dumps({"Description": "tritonstack: x", "Resources": resources})
    cloud.client("cloudformation").create_stack(StackName=f"{BASE}-{stack}", TemplateBody=body)


def fill(cloud: Cloud, *buckets: str) -> None:
    for name in buckets:
        cloud.client("s3").put_object(Bucket=name, Key="key", Body=b"x")


def buckets(cloud: Cloud) -> list[str]:
    return [item["Name"] for item in cloud.client("s3").list_buckets()["Buckets"]]


def destroyed(cloud: Cloud, base: str = BASE) -> Destroyed:
    return destroy_environment(cloud, base, on_update=lambda _: None)


def test_dependent_stacks_are_deleted_first(cloud):
    stand(cloud, *SHARED[1:], "build", "endpoint-search", "endpoint-rank")
    stand_with(cloud, "foundation", Log=bucket("a-log"), Artifacts=bucket("an-artifact-bucket"))
    fill(cloud, "a-log", "an-artifact-bucket")
    lines: list[str] = []
    destroy_environment(cloud, BASE, on_update=lines.append)
    gone = [line.split(":")[0].removeprefix(f"{BASE}-") for line in lines if "DELETE_COMPLETE" in line]
    assert set(gone[:4]) == {"monitoring", "build", "endpoint-search", "endpoint-rank"}
    assert gone[4:] == ["network", "foundation"]
    assert "a-log: 1 objects deleted" in lines
    assert environment_stacks(cloud, BASE) == []
    assert buckets(cloud) == []


def test_retained_stacks_are_kept_and_reported(cloud):
    stand_with(
        cloud,
        "foundation",
        Kept=bucket("kept", DeletionPolicy="RetainExceptOnCreate"),
        Goes=bucket("goes", DeletionPolicy="Delete"),
    )
    fill(cloud, "kept", "goes")
    assert destroyed(cloud).retained == (Retained("AWS::S3::Bucket", "kept"),)
    assert buckets(cloud) == ["kept"]
    assert cloud.client("s3").list_objects_v2(Bucket="kept")["KeyCount"] == 1


@pytest.mark.parametrize("names", [["network"], ["endpoint-search", "foundation"], ["foundation"], []])
def test_leftovers_of_an_earlier_run_are_deleted(cloud, names):
    stand(cloud, *names)
    assert destroyed(cloud).stacks == tuple(f"{BASE}-{name}" for name in names)
    assert environment_stacks(cloud, BASE) == []


def test_environments_with_similar_names_stay_separate(cloud):
    """One has the name of another's stacks: t-dev and t-dev-network, t-dev-monitoring."""
    stand(cloud, *SHARED, "endpoint-search")
    for other in ("network", "monitoring", "foundation"):
        stand(cloud, *(f"{other}-{name}" for name in (*SHARED, "endpoint-search")))
        mine = {stack.name for stack in environment_stacks(cloud, f"{BASE}-{other}")}
        assert mine == {f"{BASE}-{other}-{name}" for name in (*SHARED, "endpoint-search")}
    assert len(destroyed(cloud).stacks) == 4
    assert len(environment_stacks(cloud, f"{BASE}-network")) == 4


def test_stacks_of_another_team_with_such_names_are_kept(cloud):
    """Deployed without the description, or in review with the tags of another environment."""
    stand(cloud, "foundation")
    cloudformation = cloud.client("cloudformation")
    foreign = json.loads(TEMPLATE) | {"Description": "Our network"}
    cloudformation.create_stack(StackName=f"{BASE}-network", TemplateBody=json.dumps(foreign))
    tags = [{"Key": "project", "Value": "theirs"}, {"Key": "environment", "Value": "dev"}]
    cloudformation.create_change_set(
        StackName=f"{BASE}-monitoring",
        ChangeSetName=CHANGE_SET,
        ChangeSetType="CREATE",
        TemplateBody=TEMPLATE,
        Tags=tags,
    )
    (planned,) = cloudformation_backends[cloud.account][cloud.region].change_sets.values()
    planned.tags = tags  # moto does not return them as it has them
    assert destroyed(cloud).stacks == (f"{BASE}-foundation",)
    kept = {f"{BASE}-{name}" for name in ("network", "monitoring")}
    assert {stack.name for stack in environment_stacks(cloud, BASE)} == kept


GROUP = "/aws/sagemaker/Endpoints/tritonstack-dev"


def test_log_groups_created_by_services_are_deleted(cloud):
    stand(cloud, "two-foundation")
    logs = cloud.client("logs")
    mine = (f"{GROUP}-search", "/aws/sagemaker/InferenceComponents/tritonstack-dev-search-component")
    for name in (*mine, f"{GROUP}elopment-search", f"{GROUP}-two-search"):
        logs.create_log_group(logGroupName=name)
    logs.create_log_group(logGroupName=f"{GROUP}-kept", tags={"environment": "dev"})
    assert destroyed(cloud).log_groups == mine
    remaining = [group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]]
    assert remaining == [f"{GROUP}-kept", f"{GROUP}-two-search", f"{GROUP}elopment-search"]
