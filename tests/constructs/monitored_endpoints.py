"""Hand-made endpoints for tests of scaling, alarms, and dashboards, and small stacks of those."""

import json
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.constructs.monitoring.monitored import Monitored, MonitoredVariant
from tritonstack.facts.hardware import INSTANCE_TYPES
from tritonstack.files.endpoint.endpoint import Components, ServingOptions
from tritonstack.files.endpoint.scaling import Scaling

ACCOUNT, REGION = "123456789012", "eu-central-1"
LOCATION = AwsScope("aws", REGION, ACCOUNT)
NAME = "shop-dev-search"
COMPONENT = f"{NAME}-component"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:shop-dev-alarms"
COMPONENTS = Components(memory_mb=4096, min_copies=0, max_copies=3)


def variant(name: str = "main", instance: str = "ml.c7i.xlarge", **more: Any) -> MonitoredVariant:
    """Return a variant on one to four instances."""
    fields: dict[str, Any] = {"scaling": Scaling(min_instances=1, max_instances=4)} | more
    return MonitoredVariant(name, INSTANCE_TYPES[instance], **fields)


def monitored(*variants: MonitoredVariant, **more: Any) -> Monitored:
    """Return an endpoint; by default with one plain variant."""
    fields: dict[str, Any] = {"log_group_name": f"/aws/sagemaker/Endpoints/{NAME}"} | more
    return Monitored(NAME, variants or (variant(),), **fields)


def options(**settings: Any) -> ServingOptions:
    """Return options as an environment file sets them."""
    return ServingOptions.model_validate_json(_as_text(settings))


def scaling(**settings: Any) -> Scaling:
    """Return scaling as an environment file sets it."""
    return Scaling.model_validate_json(_as_text(settings))


def _as_text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, default=lambda record: record.model_dump(mode="json"))


def resources(build: Callable[[cdk.Stack], object]) -> dict[str, dict[str, Any]]:
    """Return the resources of a small stack by logical id."""
    stack = cdk.Stack(cdk.App(), "small", env=cdk.Environment(account=ACCOUNT, region=REGION))
    build(stack)
    template: dict[str, dict[str, Any]] = Template.from_stack(stack).to_json().get("Resources", {})
    return template


def of_type(stack: dict[str, dict[str, Any]], resource_type: str) -> dict[str, dict[str, Any]]:
    """Return the properties of all resources of a type by logical id."""
    return {key: item["Properties"] for key, item in stack.items() if item["Type"] == resource_type}


def dimensions(properties: dict[str, Any]) -> dict[str, str]:
    """Return the dimensions of a metric as CloudFormation lists them."""
    return {item["Name"]: item["Value"] for item in properties["Dimensions"]}
