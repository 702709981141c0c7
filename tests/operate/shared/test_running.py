"""How an endpoint is described that runs something else than was deployed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operate.strict_aws import OnePage, checked
from tritonstack.operate.shared.running import EndpointState, RolledBackError, require_running


def state(**changes: str) -> EndpointState:
    facts = {"name": "search", "deployed": "new", "active": "new", "status": "InService"}
    return EndpointState(**{**facts, **changes})


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"status": "InService"}, None),
        ({"status": "SystemUpdating"}, None),  # SageMaker may start maintenance at any time
        ({"active": "old", "reason": "alarm"}, "search was rolled back to its configuration old: alarm"),
        ({"status": "Failed", "reason": "no capacity"}, "search is Failed: no capacity"),
        ({"status": "RollingBack"}, "search is RollingBack"),
    ],
)
def test_a_silent_rollback_is_reported(changes, failure):
    assert state(**changes).failure == failure


class StrictComponent:
    """A stack with an inference component; the local cloud has none."""

    def __init__(self, model: str, status: str) -> None:
        self.model, self.status = model, status

    def client(self, service: str) -> StrictComponent:
        assert service in ("cloudformation", "sagemaker")
        return self

    def get_paginator(self, operation: str) -> OnePage:
        assert operation == "list_stack_resources"
        arn, kinds = "arn:aws:sagemaker:eu-west-1:111111111111", "AWS::SageMaker::"
        listed = [
            {"ResourceType": kinds + kind, "PhysicalResourceId": f"{arn}:{name}", "ResourceStatus": status}
            for kind, name, status in (
                ("Model", "model/removed", "DELETE_SKIPPED"),
                ("Model", "model/new", "CREATE_COMPLETE"),
                ("EndpointConfig", "endpoint-config/new", "UPDATE_COMPLETE"),
                ("Endpoint", "endpoint/e", "UPDATE_COMPLETE"),
                ("InferenceComponent", "inference-component/c", "UPDATE_COMPLETE"),
            )
        ]
        return OnePage(lambda **_: {"StackResourceSummaries": listed})

    def describe_endpoint(self, **parameters: str) -> dict[str, Any]:
        checked("sagemaker", "DescribeEndpoint", parameters)
        return {"EndpointName": "e", "EndpointConfigName": "New", "EndpointStatus": "InService"}

    def describe_inference_component(self, **parameters: str) -> dict[str, Any]:
        checked("sagemaker", "DescribeInferenceComponent", parameters)
        return {
            "InferenceComponentName": "c",
            "InferenceComponentStatus": self.status,
            "Specification": {"ModelName": self.model},
        }


@pytest.mark.parametrize(
    ("model", "status", "failure"),
    [
        ("New", "InService", None),
        pytest.param("New", "Updating", None, id="scaling"),
        ("Old", "Updating", "c was rolled back to its model Old"),
        ("Old", "InService", "c was rolled back to its model Old"),
        ("New", "Failed", "c is Failed"),
    ],
)
def test_a_component_that_was_rolled_back_is_reported(model, status, failure):
    cloud: Any = StrictComponent(model, status)
    if failure is None:
        require_running(cloud, ["stack"])
        return
    with pytest.raises(RolledBackError) as caught:
        require_running(cloud, ["stack"])
    assert caught.value.message.endswith(failure)
