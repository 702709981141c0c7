"""The order in which an environment is taken down, on moto's CloudFormation and S3."""

from __future__ import annotations

import pytest

from catalog.environments import EnvironmentSpec
from catalog.loading import load_workspace
from catalog.project import Project
from operations.aws import Cloud
from operations.destroy import destroy_environment
from operations.stacks import StackState, environment_stacks
from tests.operations.test_operations import TEMPLATE
from tests.projects import edit

BASE = "tritonstack-dev"
SHARED = ("foundation", "network", "monitoring")


@pytest.fixture
def spec(project: Project, cloud: Cloud) -> EnvironmentSpec:
    edit(project.environment_file("dev"), "1" * 12, cloud.account)
    edit(project.environment_file("dev"), "eu-west-1", "us-east-1")
    return load_workspace(project, "dev").spec


def stand(cloud: Cloud, *names: str) -> None:
    for name in names:
        cloud.client("cloudformation").create_stack(StackName=f"{BASE}-{name}", TemplateBody=TEMPLATE)


def fill(cloud: Cloud, *buckets: str) -> None:
    for bucket in buckets:
        cloud.client("s3").create_bucket(Bucket=bucket)
        cloud.client("s3").put_object(Bucket=bucket, Key="key", Body=b"x")


def keys(cloud: Cloud, bucket: str) -> int:
    return int(cloud.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"])


def test_what_stands_on_others_goes_first(cloud: Cloud, spec: EnvironmentSpec) -> None:
    stand(cloud, *SHARED, "build", "endpoint-search", "endpoint-rank")
    buckets = (spec.artifact_bucket, spec.data_bucket, spec.log_bucket)
    fill(cloud, *buckets)
    gone: list[str] = []

    def see(stack: StackState) -> None:
        if stack.status == "DELETE_COMPLETE":
            gone.append(stack.name.removeprefix(f"{BASE}-"))

    deleted = destroy_environment(cloud, spec, on_change=see)
    assert set(gone[:4]) == {"monitoring", "build", "endpoint-search", "endpoint-rank"}
    assert gone[4:] == ["network", "foundation"]
    assert [name.removeprefix(f"{BASE}-") for name in deleted] == gone
    assert [keys(cloud, bucket) for bucket in buckets] == [0, 0, 0]
    assert environment_stacks(cloud, BASE) == []


def test_an_older_deployment_has_neither_network_nor_data(cloud: Cloud, spec: EnvironmentSpec) -> None:
    stand(cloud, "foundation", "endpoint-search")
    fill(cloud, spec.artifact_bucket, spec.log_bucket)
    assert destroy_environment(cloud, spec, on_change=lambda _: None) == [
        f"{BASE}-endpoint-search",
        f"{BASE}-foundation",
    ]


def test_what_is_left_of_a_destroy_goes(cloud: Cloud, spec: EnvironmentSpec) -> None:
    stand(cloud, "network")
    assert destroy_environment(cloud, spec, on_change=lambda _: None) == [f"{BASE}-network"]


def test_environments_whose_names_begin_alike_keep_to_their_own(cloud: Cloud, spec: EnvironmentSpec) -> None:
    """One named after what ends another's stacks: t-dev and t-dev-network, t-dev-monitoring."""
    stand(cloud, *SHARED, "endpoint-search")
    for other in ("network", "monitoring", "foundation"):
        stand(cloud, *(f"{other}-{name}" for name in (*SHARED, "endpoint-search")))
        mine = {stack.name for stack in environment_stacks(cloud, f"{BASE}-{other}")}
        assert mine == {f"{BASE}-{other}-{name}" for name in (*SHARED, "endpoint-search")}
    for bucket in (spec.artifact_bucket, spec.data_bucket, spec.log_bucket):
        fill(cloud, bucket)
    assert len(destroy_environment(cloud, spec, on_change=lambda _: None)) == 4
    assert len(environment_stacks(cloud, f"{BASE}-network")) == 4
