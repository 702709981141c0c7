"""A life of an environment by the CDK's own commands, without this project's deploy."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Site
from tritonstack.operations.stacks import list_stacks

pytestmark = [pytest.mark.e2e, pytest.mark.soak]


def test_the_cdk_deploys_and_destroys_an_environment(site: Site) -> None:
    """The foundation first, then the artifacts by `build`, then all stacks."""
    site.tritonstack("up", "--detach")
    site.cdk("bootstrap", "aws://000000000000/us-east-1")
    site.cdk("deploy", f"{site.spec.base}-foundation", "--require-approval", "never", "--method=direct")
    site.tritonstack("build", "local")
    site.cdk("deploy", "--all", "--require-approval", "never")
    name = site.spec.endpoint_name("minilm")
    endpoint = site.cloud.client("sagemaker").describe_endpoint(EndpointName=name)
    assert endpoint["EndpointStatus"] == "InService"
    site.cdk("destroy", f"{site.spec.base}-endpoint-minilm", "--force")
    assert {stack.name for stack in list_stacks(site.cloud, prefix=site.spec.base)} == {
        f"{site.spec.base}-foundation",
        f"{site.spec.base}-monitoring",
    }
    config, model = "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"
    (report,) = site.asked("audit", "local", exit_code=1).values()
    orphans = report["orphans"]
    assert [item["type"] for item in orphans] == [config, model]
    site.tritonstack("destroy", "local", "--yes")
    assert list_stacks(site.cloud, prefix=site.spec.base) == []
    assert [item for item in site.inventory() if site.spec.base in json.dumps(item)] == []
