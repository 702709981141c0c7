"""An endpoint that matches its template exactly, as AWS services describe it, for tests to modify."""

import copy
from dataclasses import replace
from typing import Any

from tests.sample_templates import sample_template
from tritonstack.operate.verify.expectations import (
    COMPONENT_MODEL,
    ExpectedEndpoint,
    StackFacts,
    expected_endpoint,
)
from tritonstack.operate.verify.live import LiveEndpoint

ENDPOINTS = (
    "tritonstack-sample-endpoint-plain",
    "tritonstack-walled-endpoint-captured",
    *(
        f"tritonstack-every-endpoint-{name}"
        for name in ("single", "shelf", "queued", "component", "compared", "shadowed", "rolled")
    ),
)


def facts(stack: str) -> StackFacts:
    """Return a deployed stack, with physical ids and parameters in AWS's format."""
    arns = {
        "AWS::SageMaker::Model": "arn:aws:sagemaker:us-east-1:123456789012:model/",
        "AWS::SageMaker::EndpointConfig": "arn:aws:sagemaker:us-east-1:123456789012:endpoint-config/",
        "AWS::SageMaker::Endpoint": "arn:aws:sagemaker:us-east-1:123456789012:endpoint/",
        "AWS::SNS::Topic": "arn:aws:sns:us-east-1:123456789012:",
        "AWS::ApplicationAutoScaling::ScalingPolicy": "arn:aws:autoscaling:us-east-1:123456789012:policy/",
    }
    template = sample_template(stack)
    resources, declared = template["Resources"], template.get("Parameters", {})
    return StackFacts(
        name=stack,
        account="123456789012",
        region="us-east-1",
        resources={
            name: _named(item) or f"{arns.get(item['Type'], '')}{name.lower()}"
            for name, item in resources.items()
        },
        parameters={
            **{name: str(item["Default"]) for name, item in declared.items() if item["Type"] == "Number"},
            "KeyArn": "arn:aws:kms:us-east-1:123456789012:key/1",
            "SubnetIds": "subnet-1,subnet-2",
            "SecurityGroupIds": "sg-1",
        },
    )


def expected(stack: str) -> ExpectedEndpoint:
    """Return what the template configures."""
    endpoint = expected_endpoint(sample_template(stack), facts(stack))
    assert endpoint is not None
    return endpoint


def running(endpoint: ExpectedEndpoint) -> LiveEndpoint:
    """Return the configured endpoint, with the additions and spelling of the services."""
    endpoint = copy.deepcopy(endpoint)
    config_name = endpoint.properties["EndpointConfigName"].upper()
    shown = [_shown_variant(endpoint, name) for name in endpoint.variants]
    described = {
        "EndpointName": endpoint.name,
        "EndpointConfigName": config_name,
        "EndpointStatus": "InService",
        "LastDeploymentConfig": endpoint.properties.get("DeploymentConfig"),
        "ProductionVariants": [item for item in shown if item["VariantName"] not in endpoint.shadows],
        "ShadowProductionVariants": [item for item in shown if item["VariantName"] in endpoint.shadows],
    }
    if "DataCaptureConfig" in endpoint.config:
        described["DataCaptureConfig"] = {"CaptureStatus": "Started"}
    return LiveEndpoint(
        described=described,
        config={**endpoint.config, "EndpointConfigName": config_name, "CreationTime": "now"},
        models={name: {**model, "ModelArn": "arn"} for name, model in endpoint.models.items()},
        component=_shown_component(endpoint),
        targets={name: _spelled(target, "ScheduledActions") for name, target in endpoint.targets.items()},
        policies={key: _spelled(policy, "ScalingTargetId") for key, policy in endpoint.policies.items()},
        schedules={name: target.get("ScheduledActions", []) for name, target in endpoint.targets.items()},
        alarms={
            name: {
                **_spelled(alarm),
                "ActionsEnabled": True,
                "StateValue": "OK",
                "Metrics": alarm.get("Metrics", []),
            }
            for name, alarm in endpoint.alarms.items()
        },
        names=endpoint.names,
    )


def modified(live: LiveEndpoint, path: str, value: Any) -> LiveEndpoint:
    """The same endpoint with one value changed; None takes it away.

    The path is `part/key/key`, or with bars in the place of slashes; items of lists by their place.
    """
    mark = "|" if "|" in path else "/"
    part, _, rest = path.partition(mark)
    changed = copy.deepcopy(getattr(live, part))
    if not rest:
        return replace(live, **{part: value})
    holder, keys = changed, rest.split(mark)
    for key in keys[:-1]:
        holder = holder[_key(holder, key)]
    last = _key(holder, keys[-1])
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return replace(live, **{part: changed})


def _key(holder: Any, text: str) -> Any:
    if isinstance(holder, list):
        return int(text)
    return next((key for key in holder if key == text or (isinstance(key, tuple) and key[1] == text)), text)


def _named(item: dict[str, Any]) -> str:
    name = item["Properties"].get("AlarmName", "")
    return str(name)


def _shown_variant(endpoint: ExpectedEndpoint, name: str) -> dict[str, Any]:
    variant = endpoint.variants[name]
    image = endpoint.models.get(name, {}).get("PrimaryContainer", {}).get("Image")
    count = variant["InitialInstanceCount"]
    shown: dict[str, Any] = {
        "VariantName": name,
        "CurrentInstanceCount": count,
        "DesiredInstanceCount": count,
    }
    if "InitialVariantWeight" in variant:
        shown["CurrentWeight"] = float(variant["InitialVariantWeight"])
    if image:
        resolved = image if "@" in image else f"{image.partition(':')[0]}@sha256:{'0' * 64}"
        shown["DeployedImages"] = [{"SpecifiedImage": image, "ResolvedImage": resolved}]
    return shown


def _shown_component(endpoint: ExpectedEndpoint) -> dict[str, Any] | None:
    if endpoint.component is None:
        return None
    model = endpoint.models[COMPONENT_MODEL]
    return {
        **endpoint.component,
        "InferenceComponentStatus": "InService",
        "RuntimeConfig": {"DesiredCopyCount": 1, "CurrentCopyCount": 1},
        "LastDeploymentConfig": endpoint.component["DeploymentConfig"],
        "Model": model,
    }


def _spelled(properties: Any, *without: str) -> dict[str, Any]:
    """Return a value as a service answers: floats for numbers, lists in another order."""
    return {key: _respelled(value) for key, value in properties.items() if key not in without}


def _respelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _respelled(item) for key, item in value.items()}
    if isinstance(value, list):
        keyed = all(isinstance(item, dict) and {"Name", "Id"} & item.keys() for item in value)
        texts = all(isinstance(item, str) for item in value)
        return [_respelled(item) for item in (reversed(value) if keyed or texts else value)]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
