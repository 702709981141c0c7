"""Each property of a template becomes the intended calls: on creation, on an update, and on deletion.

After an intended change: UPDATE_SNAPSHOTS=1 pytest with this file, and review calls.yaml.
"""

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from tritonstack_local.cloudformation.operations import Operations
from tritonstack_local.cloudformation.providers import PROVIDERS
from tritonstack_local.cloudformation.providers.base import ResourceRequest

FOLDER = Path(__file__).parent
TEMPLATES = yaml.safe_load((FOLDER / "templates.yaml").read_text())
CALLS = FOLDER / "calls.yaml"
LOST_IN_MOTO = ("AWS::EC2::VPCEndpoint", "AWS::Events::Rule")
"""Types that moto fails on when they are gone."""
READS = ("batch_get_", "describe_", "get_", "list_")


@pytest.fixture
def calls(monkeypatch):
    """Record the changing calls of each resource, in order."""
    calls, client, remove = {}, ResourceRequest.client, Operations.remove

    class Recorded:
        def __init__(self, request, service):
            self.name, self.client = request.logical_id, client(request, service)

        def __getattr__(self, operation):
            def call(**arguments):
                if not operation.startswith(READS):
                    calls.setdefault(self.name, []).append({operation: arguments})
                return getattr(self.client, operation)(**arguments)

            return call

    def recorded(request, service):
        return Recorded(request, service)

    def remove_twice(operations, state, *, retain):
        """Delete each resource twice: what is gone already is no error."""
        remove(operations, state, retain=retain)
        if not retain and state.type not in LOST_IN_MOTO:
            before = list(calls.get(state.logical_id, ()))
            operations.providers[state.type].delete(operations.request(state), state.physical_id)
            calls[state.logical_id] = before

    monkeypatch.setattr(ResourceRequest, "client", recorded)
    monkeypatch.setattr(Operations, "remove", remove_twice)
    return calls


def resources_of(template):
    names = [key.split(" ") for key in template]
    return {name: {"Type": kind, "Properties": template[f"{name} {kind}"]} for name, kind in names}


def attributes_of(resources):
    """Return an output for each attribute of each resource."""
    return {
        f"{name}{attribute}": {"Value": {"Fn::GetAtt": [name, attribute]}}
        for name, resource in resources.items()
        for attribute in PROVIDERS[resource["Type"]].attributes
    }


def general(value, stack, ids):
    """Replace what differs between runs: ids, generated names, and the account."""
    text = json.dumps(value, sort_keys=True, default=str).replace(stack.account.account_id, "ACCOUNT")
    for name, physical_id in sorted(ids.items(), key=lambda item: -len(item[1])):
        if re.search(r"-[0-9A-Za-z]{12}$|[0-9a-f]{12,}", physical_id):
            text = text.replace(physical_id.replace(stack.account.account_id, "ACCOUNT"), f"<{name}>")
    return json.loads(re.sub(r"(stack-\w+-|AROA|sgr-|sg-|scalable-target/)\w{12,32}", r"\1RANDOM", text))


def empty_buckets(s3):
    """Remove the access logs that the buckets' own calls have left."""
    for bucket in s3.list_buckets()["Buckets"]:
        for item in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", []):
            s3.delete_object(Bucket=bucket["Name"], Key=item["Key"])


@pytest.mark.parametrize("name", TEMPLATES)
def test_properties_become_calls(stack, calls, name):
    before, after = (resources_of(TEMPLATES[name][key]) for key in ("before", "after"))
    phases = {}
    assert stack.create(before, Outputs=attributes_of(before)) == "CREATE_COMPLETE", stack.reasons()
    ids = stack.physical_ids()
    assert len(stack.outputs()) == len(attributes_of(before))
    phases["create"] = calls.copy()
    calls.clear()
    assert stack.update(after) == "UPDATE_COMPLETE", stack.reasons()
    assert {key: ids[key] for key in after} == stack.physical_ids(), "changed in place"
    phases["update"] = calls.copy()
    calls.clear()
    empty_buckets(stack.account.client("s3"))
    assert stack.delete() == "DELETE_COMPLETE"
    phases["delete"] = calls.copy()
    phases = general(phases, stack, ids)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        recorded = yaml.safe_load(CALLS.read_text()) if CALLS.exists() else {}
        CALLS.write_text(yaml.safe_dump(recorded | {name: phases}, width=110, default_flow_style=None))
    assert phases == yaml.safe_load(CALLS.read_text())[name]
    assert [item for item in stack.account.inventory() if not item.get("pending_deletion")] == []


def test_every_type_has_a_template():
    kinds = {key.split(" ")[1] for name in TEMPLATES for key in TEMPLATES[name]["before"]}
    assert PROVIDERS.keys() - kinds == {"AWS::CDK::Metadata", "AWS::SageMaker::Endpoint"}
