"""Updates that SageMaker rejects, and stacks without the scaling in the way, with real templates."""

import json
from typing import Any

import pytest

from tests.operate.conftest import STACK
from tritonstack.base.errors import TritonstackError
from tritonstack.operate.deploy.plans import hazards, unregistered
from tritonstack.operate.synth.assembly import (
    CONFIG,
    ENDPOINT,
    MODEL,
    TARGET,
    EndpointTemplate,
    Template,
    references,
    with_instance_types,
)

POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
ALARM = "AWS::CloudWatch::Alarm"


def of_type(template: Template, kind: str) -> dict[str, Any]:
    return {name: item for name, item in template["Resources"].items() if item["Type"] == kind}


def copied(template: Template) -> Any:
    return json.loads(json.dumps(template))


def config(template: Template) -> Any:
    return next(iter(of_type(template, CONFIG).values()))["Properties"]


def with_challenger(template: Template) -> Template:
    """The same with a second scaling variant."""
    changed = copied(template)
    variants = config(changed)["ProductionVariants"]
    variants.append({**variants[0], "VariantName": "challenger"})
    for kind in (TARGET, POLICY):
        for name, item in of_type(template, kind).items():
            text = json.dumps(item).replace("variant/main", "variant/challenger")
            for target in of_type(template, TARGET):
                text = text.replace(f'"Ref": "{target}"', f'"Ref": "{target}Challenger"')
            changed["Resources"][f"{name}Challenger"] = json.loads(text)
    return changed


def dangling(template: Template) -> set[str]:
    """Return the references of a template to resources that it lacks."""
    names = {*template["Resources"], *template.get("Parameters", {})}
    referred = {name for name in references(template) if not name.startswith("AWS::")}
    waited = {
        name
        for item in template["Resources"].values()
        for name in (
            [item["DependsOn"]] if isinstance(item.get("DependsOn"), str) else item.get("DependsOn", [])
        )
    }
    return (referred | waited) - names


def test_the_instance_type_that_runs_decides_after_a_rollback(synthesized):
    """The stack has the new type, but SageMaker has rolled back to the one before."""
    template = synthesized().template(STACK)
    running = with_instance_types(template, {"main": "ml.c7i.4xlarge", "other": "ml.c7i.large"})
    [hazard] = hazards(running, template)
    assert (hazard.variant, hazard.rejected) == ("main", False)
    assert [variant["InstanceType"] for variant in config(running)["ProductionVariants"]] == [
        "ml.c7i.4xlarge"
    ]
    assert with_instance_types(template, {}) == template


def test_hazards_depend_on_the_deployed_registration(synthesized):
    scaled, fixed = synthesized().template(STACK), synthesized(least=4).template(STACK)
    other = synthesized(instance_type="ml.c7i.2xlarge").template(STACK)
    other_fixed = synthesized(instance_type="ml.c7i.2xlarge", least=4).template(STACK)
    assert not hazards(fixed, other)
    assert hazards(scaled, other_fixed)
    assert not hazards(scaled, fixed)


def test_another_model_or_weight_is_not_a_hazard(template):
    changed = copied(template)
    next(iter(of_type(changed, MODEL).values()))["Properties"]["PrimaryContainer"]["ModelDataUrl"] += "x"
    config(changed)["ProductionVariants"][0]["InitialVariantWeight"] = 0.5
    assert hazards(template, changed) == []


def test_scaled_variant_that_is_removed(template):
    both = with_challenger(template)
    [hazard] = hazards(both, template)
    assert hazard.variant == "challenger"
    assert hazards(template, both) == []


def test_mode_components_and_their_instances_cannot_change(template):
    queued, components = copied(template), copied(template)
    config(queued)["AsyncInferenceConfig"] = {"OutputConfig": {"S3OutputPath": "s3://x/"}}
    for variant in config(components)["ProductionVariants"]:
        del variant["ModelName"]
    larger = copied(components)
    config(larger)["ProductionVariants"][0]["InstanceType"] = "ml.m7i.2xlarge"
    assert hazards(components, copied(components)) == []
    for old, new, words in (
        (template, queued, "to asynchronous"),
        (queued, template, "to real-time"),
        (template, components, "to inference components"),
        (components, template, "to models on variants"),
        (components, larger, "ml.c7i.xlarge to ml.m7i.2xlarge"),
    ):
        [hazard] = [hazard for hazard in hazards(old, new) if hazard.rejected]
        assert words in hazard.what
        assert "another endpoint" in str(hazard.remedy)


def test_only_scaling_is_removed(template):
    bare = unregistered(with_challenger(template), {"challenger"})
    assert {*EndpointTemplate(bare).targets.values()} == {"main"}
    assert of_type(bare, POLICY) == of_type(template, POLICY)
    bare = unregistered(template, {"main"})
    gone = {*template["Resources"]} - {*bare["Resources"]}
    assert {template["Resources"][name]["Type"] for name in gone} == {TARGET, POLICY}
    for kind in (ENDPOINT, CONFIG, MODEL, ALARM):
        assert of_type(bare, kind) == of_type(template, kind)
    assert EndpointTemplate(bare).targets == {}
    assert dangling(bare) == dangling(template) == set()
    assert {key: bare[key] for key in bare if key != "Resources"} == {
        key: template[key] for key in template if key != "Resources"
    }


def test_resources_that_depend_on_scaling_are_removed_with_it(template):
    """A step alarm on a policy, a composite alarm on that, an output, and their dependencies."""
    changed = copied(template)
    [policy], [target] = of_type(template, POLICY), of_type(template, TARGET)
    resources = changed["Resources"]
    resources["Step"] = {"Type": ALARM, "Properties": {"AlarmActions": [{"Ref": policy}]}}
    rule = {"Fn::Sub": "ALARM(${Step}) AND ${AWS::Region}"}
    resources["Both"] = {"Type": "AWS::CloudWatch::CompositeAlarm", "Properties": {"AlarmRule": rule}}
    resources["Note"] = {"Type": "AWS::SSM::Parameter", "Properties": {"Value": "x"}, "DependsOn": "Both"}
    changed["Outputs"]["Scaling"] = {"Value": {"Fn::GetAtt": [policy, "Arn"]}}
    bare = unregistered(changed, {"main"})
    assert not {policy, target, "Step", "Both"} & {*bare["Resources"]}
    assert bare["Resources"]["Note"] == {"Type": "AWS::SSM::Parameter", "Properties": {"Value": "x"}}
    assert bare["Outputs"] == template["Outputs"]
    assert dangling(bare) == set()


def test_a_registration_with_dependents_is_kept(template):
    changed = copied(template)
    [target] = of_type(template, TARGET)
    changed["Resources"]["Other"] = {"Type": "AWS::SSM::Parameter", "Properties": {"Value": {"Ref": target}}}
    with pytest.raises(TritonstackError, match=r"Other \(AWS::SSM::Parameter\) refers"):
        unregistered(changed, {"main"})
