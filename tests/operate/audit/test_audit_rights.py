"""The clean-up role allows every call of an audit."""

from typing import Any

import boto3

from tests.operate.audit.test_audit import ARNS, BASE
from tritonstack.constructs.delivery.preview_grants import find_everything
from tritonstack.operate.audit.audit import find_resources
from tritonstack.operate.audit.resources import AuditScope
from tritonstack.operate.shared.aws import Cloud

ANSWERS: dict[str, Any] = {
    "list_buckets": {"Buckets": []},
    "list_keys": {"Keys": [{"KeyId": "k"}]},
    "describe_key": {"KeyMetadata": {"KeyManager": "AWS", "KeyState": "Enabled"}},
    "describe_repositories": {"repositories": [{"repositoryName": BASE}]},
    "describe_stacks": {"Stacks": [{"StackName": f"{BASE}-foundation", "StackStatus": "CREATE_COMPLETE"}]},
    "list_open_id_connect_providers": {"OpenIDConnectProviderList": [{"Arn": "p"}]},
    "list_open_id_connect_provider_tags": {"Tags": []},
    "describe_log_groups": {"logGroups": []},
    "batch_get_projects": {"projects": []},
    "get_resources": {
        "ResourceTagMappingList": [{"ResourceARN": f"arn:aws:{arn}", "Tags": []} for arn in ARNS]
    },
}
"""Where an answer leads to another question."""
OTHERWISE = {"s3:ListBuckets": "s3:ListAllMyBuckets", "s3:HeadBucket": "s3:ListBucket"}
SERVICES = {"resourcegroupstaggingapi": "tag"}


class Recorder:
    """A service that returns almost nothing, and records its calls."""

    def __init__(self, service: str, calls: set[tuple[str, str]]) -> None:
        self._service, self._asked = service, calls

    def get_paginator(self, operation: str) -> Any:
        recorder = self

        class Pages:
            def paginate(self, **_: Any) -> list[Any]:
                return [recorder.answer(operation)]

        return Pages()

    def answer(self, operation: str) -> Any:
        self._asked.add((self._service, operation))
        return ANSWERS.get(operation, {})

    def __getattr__(self, operation: str) -> Any:
        return lambda **_: self.answer(operation)


def test_the_clean_up_role_allows_every_call_of_an_audit(monkeypatch):
    calls: set[tuple[str, str]] = set()
    monkeypatch.setattr(Cloud, "client", lambda _, service: Recorder(service, calls))
    find_resources(Cloud("1", "us-east-1", {}), AuditScope(BASE, {"project": "tritonstack"}))
    assert len(calls) > 35
    actions = {action_of(*question) for question in calls}
    allowed = {action for grant in find_everything() for action in grant.actions}
    # Of its own stacks alone, which the same role may look into.
    assert actions - allowed == {"cloudformation:ListStackResources"}


def action_of(service: str, operation: str) -> str:
    """Return the IAM action of a boto3 operation."""
    client = boto3.client(service, region_name="us-east-1")
    name = client.meta.method_to_api_mapping[operation]
    action = f"{SERVICES.get(service, service)}:{name}"
    return OTHERWISE.get(action, action)
