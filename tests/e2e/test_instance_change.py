"""A change of the instance type of a scaling endpoint, on the local cloud with the real CDK.

The tests of this file run in order and depend on each other.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tests.e2e.conftest import Site, tiny_site
from tests.projects import edit
from tritonstack.client import EndpointClient
from tritonstack.files.loading import load_workspace
from tritonstack.operate.shared.stacks import describe_stack, wait_until_settled

pytestmark = pytest.mark.soak

ENVIRONMENT = """\
name: local
account: "000000000000"
region: us-east-1
triton_release: "25.04"
removal: destroy
endpoints:
  tiny:
    kind: ensemble
    model: texts
    instance_type: ml.c7i.xlarge
    scaling: {min_instances: 2, max_instances: 5, invocations_per_instance: 600}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    here = tiny_site(tmp_path_factory.mktemp("site"), ENVIRONMENT, texts="text")
    yield here
    here.tritonstack("down")


def client(site: Site) -> EndpointClient:
    return EndpointClient(
        endpoint_name=site.spec.endpoint_name("tiny"), runtime=site.cloud.client("sagemaker-runtime")
    )


@contextmanager
def asked_all_the_time(site: Site) -> Iterator[list[int]]:
    """Invoke the endpoint continuously; the test fails with the first failed request."""
    asking, stop = client(site), threading.Event()
    answered, failed = [0], list[Exception]()

    def ask() -> None:
        while not stop.wait(0.05):
            try:
                asking.infer({"TEXT": np.array([["two men"]], dtype=object)})
            except Exception as error:
                failed.append(error)
                return
            answered[0] += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answered
    finally:
        stop.set()
        thread.join()
    assert failed == []


def targets(site: Site) -> list[tuple[str, int, int]]:
    scaling = site.cloud.client("application-autoscaling")
    found = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    return [(item["ResourceId"], item["MinCapacity"], item["MaxCapacity"]) for item in found]


def instance_type(site: Site) -> str:
    sagemaker = site.cloud.client("sagemaker")
    endpoint = sagemaker.describe_endpoint(EndpointName=site.spec.endpoint_name("tiny"))
    assert endpoint["EndpointStatus"] == "InService"
    config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    return str(config["ProductionVariants"][0]["InstanceType"])


def change(site: Site, old: str, new: str) -> None:
    edit(site.project.environment_file("local"), old, new)


def scaled(site: Site) -> list[tuple[str, int, int]]:
    return [(f"endpoint/{site.spec.endpoint_name('tiny')}/variant/main", 2, 5)]


def test_diff_before_the_first_deploy_lists_created_resources(site: Site) -> None:
    site.tritonstack("build", "local", "--no-publish")
    site.tritonstack("up", "--detach")
    output = site.tritonstack("diff", "local", "--full")
    assert "[+] AWS::SageMaker::Endpoint" in output
    row = f"+ create tritonstack-local-endpoint-tiny endpoint {site.spec.endpoint_name('tiny')}"
    assert row in " ".join(output.split())


def test_diff_after_the_first_deploy_plans_nothing(site: Site) -> None:
    site.tritonstack("deploy", "local", "--bootstrap")
    assert targets(site) == scaled(site)
    plans = site.asked("diff", "local")["stacks"]
    assert {plan["action"] for plan in plans} == {"nothing"}


def test_diff_shows_that_an_instance_type_change_needs_two_phases(site: Site) -> None:
    change(site, "ml.c7i.xlarge", "ml.c7i.2xlarge")
    output = site.tritonstack("diff", "local")
    assert (
        "two phases, because the instance type of variant 'main' changes from ml.c7i.xlarge to ml.c7i.2xlarge"
        in output
    )
    assert "SageMaker rejects a plain `cdk deploy` of changes that need two phases" in output


def test_direct_cdk_deploy_is_rejected_and_rolls_back(site: Site) -> None:
    command = ("cdk", "deploy", "--all", "--require-approval", "never", "-c", "env=local")
    output = site.run(*command, with_cloud=True, exit_code=1)
    assert "must be deregistered as scalable targets" in output
    stack = f"{site.spec.base}-endpoint-tiny"
    wait_until_settled(site.cloud, [stack], on_change=lambda _: None)
    state = describe_stack(site.cloud, stack)
    assert state is not None
    assert state.status == "UPDATE_ROLLBACK_COMPLETE"
    assert instance_type(site) == "ml.c7i.xlarge"


def test_one_command_changes_the_type_while_the_endpoint_answers(site: Site) -> None:
    with asked_all_the_time(site) as answered:
        output = site.tritonstack("deploy", "local")
    assert answered[0] > 10
    assert "phase 1 of 2: removing the scaling" in output
    assert "phase 2 of 2" in output
    assert instance_type(site) == "ml.c7i.2xlarge"
    assert targets(site) == scaled(site)
    assert site.cdk("diff").count("There were no differences") >= 2


def test_endpoint_still_answers_after_a_rolled_back_second_phase(site: Site) -> None:
    """The artifact is damaged in the bucket, so SageMaker rolls back, and CloudFormation reports success."""
    change(site, "ml.c7i.2xlarge", "ml.c7i.4xlarge")
    digest = load_workspace(site.project, "local").lock.record.models["texts"]["cpu"].digest
    s3, key = site.cloud.client("s3"), f"models/texts/{digest}/model.tar.gz"
    place = {"Bucket": site.spec.artifact_bucket, "Key": key}
    whole = s3.get_object(**place)
    body, metadata = whole["Body"].read(), whole["Metadata"]
    s3.put_object(**place, Body=bytes(len(body)), Metadata=metadata)
    output = site.tritonstack("deploy", "local", exit_code=1)
    assert "TS507" in output
    assert (instance_type(site), targets(site)) == ("ml.c7i.2xlarge", scaled(site))
    assert client(site).infer({"TEXT": np.array([["a cart"]], dtype=object)})["embedding"].shape == (1, 32)
    s3.put_object(**place, Body=body, Metadata=metadata)


def test_next_deploy_updates_what_was_rolled_back(site: Site) -> None:
    """The stack has the new type, so CloudFormation alone would change nothing."""
    plans = site.asked("diff", "local")["stacks"]
    assert {plan["action"] for plan in plans} == {"nothing"}
    site.tritonstack("deploy", "local")
    assert (instance_type(site), targets(site)) == ("ml.c7i.4xlarge", scaled(site))


def test_destroy_leaves_nothing(site: Site) -> None:
    site.tritonstack("destroy", "local", "--yes")
    assert [item for item in site.inventory() if site.spec.base in json.dumps(item)] == []
