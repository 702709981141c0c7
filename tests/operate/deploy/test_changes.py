"""The plan of a deploy, compared with stacks in moto."""

import json
from typing import Any

import pytest

from tests.operate.conftest import STACK
from tests.operate.deploy.test_updates import config, copied, of_type
from tests.operate.shared.test_operations import stand_in_cdk
from tritonstack.operate.deploy import changes as changes_module
from tritonstack.operate.deploy.changes import (
    compare_endpoints,
    left_without_scaling,
    plan_stack_changes,
    remove_scaling,
)
from tritonstack.operate.deploy.plans import RejectedChangeError
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.running import EndpointState
from tritonstack.operate.shared.stacks import environment_stacks
from tritonstack.operate.synth.assembly import TARGET, Assembly, Template, deployed_templates
from tritonstack.operate.synth.cdk import find_cdk

BASE = "tritonstack-dev"


def hold(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, templates: dict[str, Template]) -> None:
    """Create stacks by name and status; moto cannot create the resources of these templates."""
    client, real = cloud.client("cloudformation"), Cloud.client
    for name in templates:
        client.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": {}}))

    def answer(StackName: str, **_: Any) -> dict[str, Any]:  # noqa: N803  boto3's spelling
        return {"TemplateBody": templates[StackName]}

    monkeypatch.setattr(client, "get_template", answer)
    monkeypatch.setattr(
        Cloud, "client", lambda self, service: client if service == "cloudformation" else real(self, service)
    )


def test_templates_of_deployed_stacks(cloud):
    client = cloud.client("cloudformation")
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    client.create_stack(StackName=STACK, TemplateBody=json.dumps(template))
    client.create_change_set(
        StackName=f"{BASE}-endpoint-new",
        ChangeSetName="first",
        ChangeSetType="CREATE",
        TemplateBody=json.dumps(template),
    )
    states = environment_stacks(cloud, BASE)
    assert {state.name for state in states} == {STACK, f"{BASE}-endpoint-new"}
    assert deployed_templates(cloud, states) == {STACK: template}


def test_each_stack_is_compared_with_its_own_template(cloud, synthesized, monkeypatch):
    deployed = synthesized()
    hold(cloud, monkeypatch, {name: deployed.template(name) for name in deployed.stacks})
    changes = plan_stack_changes(cloud, BASE, synthesized(instance_type="ml.m7i.xlarge"))
    actions = {plan.stack: plan.action for plan in changes.plans}
    assert actions.pop(STACK) == "two-phase"
    assert actions.pop(f"{BASE}-monitoring") == "change"  # its charts count by the machine's processors
    assert set(actions.values()) == {"nothing"}
    changes.require_possible()


def test_changes_that_sagemaker_rejects_are_rejected_with_the_remedy(cloud, synthesized, monkeypatch):
    queued = copied(synthesized().template(STACK))
    config(queued)["AsyncInferenceConfig"] = {}
    hold(cloud, monkeypatch, {STACK: queued})
    with pytest.raises(RejectedChangeError, match=f"{STACK}: rejected: the endpoint") as caught:
        plan_stack_changes(cloud, BASE, synthesized()).require_possible()
    assert "another endpoint" in str(caught.value.remedy)


def test_the_first_phase_deploys_the_current_stack_without_scaling(cloud, synthesized, monkeypatch, tmp_path):
    deployed = synthesized().template(STACK)
    hold(cloud, monkeypatch, {STACK: deployed})
    changes = plan_stack_changes(cloud, BASE, synthesized(instance_type="ml.m7i.xlarge"))
    folder = tmp_path / "seen"
    stand_in_cdk(tmp_path, f'for last; do :; done; cp -r "$last" {folder}; echo "$@" > {folder}/arguments')
    cdk = find_cdk(tmp_path, environment_name="dev", variables={"PATH": "/usr/bin:/bin"})
    remove_scaling(cdk, changes, on_line=lambda _: None)
    assert (folder / "arguments").read_text().startswith(f"deploy {STACK} --exclusively ")
    first = Assembly(folder).template(STACK)
    assert of_type(first, TARGET) == {}
    assert config(first) == config(deployed)


def test_endpoints_that_the_second_phase_did_not_reach(cloud, synthesized, monkeypatch):
    new = synthesized(instance_type="ml.m7i.xlarge")
    standing = {STACK: synthesized().template(STACK)}
    hold(cloud, monkeypatch, standing)
    changes = plan_stack_changes(cloud, BASE, new)
    assert left_without_scaling(cloud, BASE, changes) == ["tritonstack-dev-search"]
    standing[STACK] = new.template(STACK)
    assert left_without_scaling(cloud, BASE, changes) == []


@pytest.mark.parametrize(
    ("running", "least", "action", "is_other_type"),
    [
        ("ml.c7i.xlarge", 1, "nothing", False),
        ("ml.c7i.4xlarge", 1, "two-phase", True),
        # Its scaling was removed before, by a deployment that was interrupted.
        ("ml.c7i.4xlarge", 4, "roll-out", True),
    ],
)
def test_what_was_rolled_back_is_compared_with_what_runs(
    cloud, synthesized, monkeypatch, running, least, action, is_other_type
):
    assembly = synthesized(least=least) if least > 1 else synthesized()
    hold(cloud, monkeypatch, {name: assembly.template(name) for name in assembly.stacks})
    state = EndpointState(f"{BASE}-search", "new", "old", "InService")
    monkeypatch.setattr(changes_module, "endpoint_states", lambda *_: [state])
    monkeypatch.setattr(changes_module, "variants_of", lambda *_: {"main": {"InstanceType": running}})
    planned = plan_stack_changes(cloud, BASE, assembly)
    assert {plan.action for plan in planned.plans} == {"nothing"}
    changes = compare_endpoints(cloud, BASE, planned)
    assert {plan.action for plan in changes.plans if plan.stack == STACK} == {action}
    assert [(item.stack, item.is_other_type) for item in changes.outdated] == [(STACK, is_other_type)]
