"""An update keeps the running copies of a component, and the limits of the schedules in force.

botocore's stub answers for components: moto has none.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template as Synthesized
from botocore.stub import Stubber

from tests.constructs.monitored_endpoints import monitored, options, scaling, variant
from tests.operate.conftest import PLAYED
from tests.operate.deploy.test_updates import copied, of_type
from tests.sample_templates import sample_template
from tritonstack.constructs.endpoint.autoscaling import Autoscaling
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.operate.deploy.changes import Changes
from tritonstack.operate.deploy.kept_parameters import copy_parameters, limit_parameters
from tritonstack.operate.deploy.plans import plan_stack
from tritonstack.operate.synth.assembly import COMPONENT, MODEL, TARGET, Assembly, Template

STACK, ENDPOINT = "tritonstack-every-endpoint-component", "tritonstack-every-component"
NAME = f"{ENDPOINT}-component"


def environment(**more: Any) -> EnvironmentSpec:
    components = {"memory_mb": 4096, "min_copies": 0, "max_copies": 8} | more.pop("components", {})
    endpoint = {
        "kind": "ensemble",
        "model": "encoder",
        "instance_type": "ml.g5.xlarge",
        "components": components,
        "scaling": {"min_instances": 0, "max_instances": 20} | more.pop("scaling", {}),
        **more,
    }
    return EnvironmentSpec.model_validate(
        {
            "name": "every",
            "account": "123456789012",
            "region": "eu-central-1",
            "triton_release": "25.04",
            "endpoints": {"component": endpoint},
        }
    )


@pytest.fixture
def template():
    return copied(sample_template(STACK))


def part(template: Template, kind: str) -> dict[str, Any]:
    ((_, resource),) = of_type(template, kind).items()
    properties: dict[str, Any] = resource["Properties"]
    return properties


def another_artifact(template: Template) -> Template:
    changed = copied(template)
    part(changed, MODEL)["PrimaryContainer"]["ModelDataUrl"] = "s3://another/model.tar.gz"
    return changed


def change(folder: Path, old: Template | None, new: Template) -> Changes:
    """Return the change of a stack, with the new template in an assembly."""
    file, artifact = f"{STACK}.template.json", "aws:cloudformation:stack"
    manifest = {"artifacts": {STACK: {"type": artifact, "properties": {"templateFile": file}}}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / file).write_text(json.dumps(new))
    deployed = {STACK: old} if old is not None else {}
    return Changes(Assembly(folder), deployed, [plan_stack(STACK, deployed=old, new=new)])


def values(arguments: list[str], new: Template) -> dict[str, int]:
    """Return what the CDK's arguments set: parameters that the template declares."""
    assert set(arguments[::2]) <= {"--parameters"}
    passed = dict(argument.removeprefix(f"{STACK}:").split("=") for argument in arguments[1::2])
    assert passed.keys() <= new["Parameters"].keys()
    return {key: int(value) for key, value in passed.items()}


class Ask:
    """Plan a deployment and return the parameters that it passes to the CDK, by their construct."""

    def __init__(self, folder: Path, stub: Stubber) -> None:
        self._folder, self._stub = folder, stub

    def __call__(
        self, old: Template | None, new: Template, running: int | None, spec: EnvironmentSpec | None = None
    ) -> dict[str, int]:
        changes = change(self._folder, old, new)
        if running is not None:
            account = "arn:aws:sagemaker:eu-central-1:123456789012"
            answer = {
                "InferenceComponentName": NAME,
                "InferenceComponentArn": f"{account}:inference-component/{NAME}",
                "EndpointName": ENDPOINT,
                "EndpointArn": f"{account}:endpoint/{ENDPOINT}",
                "CreationTime": 0,
                "LastModifiedTime": 0,
                "RuntimeConfig": {"DesiredCopyCount": running, "CurrentCopyCount": running},
            }
            self._stub.add_response("describe_inference_component", answer, {"InferenceComponentName": NAME})
        with self._stub:
            arguments = copy_parameters(PLAYED, spec or environment(), changes)
        self._stub.assert_no_pending_responses()
        passed = values(arguments, new)
        return {("batch" if "Batch" in key else "copies"): value for key, value in passed.items()}


@pytest.fixture
def ask(tmp_path):
    return Ask(tmp_path, Stubber(PLAYED.client("sagemaker")))


def test_each_update_of_a_component_keeps_the_running_copies(ask, template):
    assert ask(template, another_artifact(template), 6) == {"copies": 6, "batch": 3}
    number = copied(template)  # as earlier versions wrote it
    part(number, COMPONENT)["RuntimeConfig"] = {"CopyCount": 1}
    assert ask(number, template, 5) == {"copies": 5, "batch": 2}
    rollout = copied(template)
    part(rollout, COMPONENT)["DeploymentConfig"]["RollingUpdatePolicy"]["WaitIntervalInSeconds"] = 1
    assert ask(template, rollout, 4) == {"copies": 4, "batch": 2}
    minimum = copied(template)
    minimum["Parameters"][part(minimum, COMPONENT)["RuntimeConfig"]["CopyCount"]["Ref"]]["Default"] = 3
    spec = environment(components={"min_copies": 3})
    assert ask(template, minimum, 2, spec) == {"copies": 3, "batch": 1}


def test_an_untouched_component_is_not_asked_for(ask, template):
    new = copied(template)
    part_of_alarm = next(iter(of_type(new, "AWS::CloudWatch::Alarm").values()))["Properties"]
    part_of_alarm["Threshold"] = 7
    assert ask(template, new, None) == {}
    assert ask(template, template, None) == {}
    assert ask(None, template, None) == {}


@pytest.mark.parametrize(("running", "kept"), [(0, 1), (1, 1), (2, 2), (8, 8), (9, 9), (12, 10)])
def test_copies_stay_within_the_limits_of_the_endpoint_and_its_schedules(ask, template, running, kept):
    """A schedule in force allows more copies than the endpoint's own limits."""
    spec = environment(scaling={"schedules": {"day": {"at": "08:00", "min": 2, "max": 10}}})
    passed = ask(template, another_artifact(template), running, spec)
    assert passed["copies"] == kept


OFFICE = {"at": "07:30", "days": "MON-FRI", "timezone": "Europe/Berlin", "min": 4, "max": 10}
EVENING = {"at": "19:00", "days": "MON-FRI", "timezone": "Europe/Berlin", "min": 2, "max": 5}


def scheduled(**changes: Any) -> Template:
    """Return the template of an endpoint with two schedules."""
    defaults = {"min_instances": 1, "max_instances": 8, "schedules": {"office": OFFICE, "evening": EVENING}}
    own = scaling(**defaults | changes)
    stack = cdk.Stack()
    exists = cdk.CfnResource(stack, "Endpoint", type="AWS::SageMaker::Endpoint")
    endpoint = monitored(variant(scaling=own))
    Autoscaling(stack, "Autoscaling", monitored=endpoint, options=options(scaling=own), endpoint=exists)
    template: Template = Synthesized.from_stack(stack).to_json()
    template["Resources"].pop("Endpoint")
    return template


NOON, NIGHT = datetime(2026, 11, 25, 11, tzinfo=UTC), datetime(2026, 11, 25, 22, tzinfo=UTC)
SUNDAY, EARLY = datetime(2026, 11, 29, 11, tzinfo=UTC), datetime(2026, 11, 25, 6, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "limits"), [(NOON, (4, 10)), (NIGHT, (2, 5)), (SUNDAY, (2, 5)), (EARLY, (2, 5))]
)
def test_a_change_of_scaling_keeps_the_limits_of_the_schedule_in_force(tmp_path, now, limits):
    new = scheduled(max_instances=9)
    target = part(new, TARGET)
    passed = values(limit_parameters(change(tmp_path, scheduled(), new), now), new)
    assert (passed[target["MinCapacity"]["Ref"]], passed[target["MaxCapacity"]["Ref"]]) == limits


def test_limits_are_passed_for_targets_that_cloudformation_writes_only(tmp_path):
    new = scheduled()
    numbers = copied(new)
    part(numbers, TARGET).update(MinCapacity=1, MaxCapacity=8)  # as earlier versions wrote them
    for old, passed in ((new, 0), (None, 2), (numbers, 2), (scheduled(schedules={"office": OFFICE}), 2)):
        assert len(values(limit_parameters(change(tmp_path, old, new), NOON), new)) == passed
    other = copied(new)
    next(iter(of_type(other, "AWS::ApplicationAutoScaling::ScalingPolicy").values()))["Properties"]["X"] = 1
    assert limit_parameters(change(tmp_path, new, other), NOON) == []
