"""How an endpoint is described that runs something else than was deployed."""

from __future__ import annotations

import pytest

from tritonstack.operations.running import EndpointState


def state(**changes: str) -> EndpointState:
    facts = {"name": "search", "deployed_config": "new", "active_config": "new", "status": "InService"}
    return EndpointState(**{**facts, **changes})


@pytest.mark.parametrize("status", ["InService", "SystemUpdating"])
def test_an_endpoint_that_runs_its_deployment_has_no_failures(status: str) -> None:
    """SageMaker may start maintenance of its instances at any time."""
    assert state(status=status).failure is None


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"active_config": "old"}, "search was rolled back to its configuration old"),
        (
            {"active_config": "old", "reason": "alarm fired"},
            "search was rolled back to its configuration old: alarm fired",
        ),
        ({"status": "Failed", "reason": "no capacity"}, "search is Failed: no capacity"),
        ({"status": "RollingBack"}, "search is RollingBack"),
    ],
)
def test_a_silent_rollback_is_reported(changes: dict[str, str], failure: str) -> None:
    assert state(**changes).failure == failure
