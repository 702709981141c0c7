"""The dashboard of an environment: which endpoints it shows, and its size limit."""

import json
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from stacks.monitoring import MonitoringStack
from tritonstack.files.environment.environment import EnvironmentSpec

LARGEST_TEMPLATE = 1_048_576

MANY = {"kind": "multi-model", "models": ["encoder"], "instance_type": "ml.g5.xlarge"}


def template(endpoints: dict[str, Any]) -> dict[str, Any]:
    fields = {
        "name": "dev",
        "account": "123456789012",
        "region": "eu-central-1",
        "triton_release": "25.04",
        "prices": {"ml.g5.xlarge": 1.408},
        "endpoints": endpoints,
    }
    spec = EnvironmentSpec.model_validate_json(json.dumps(fields))
    document: dict[str, Any] = Template.from_stack(MonitoringStack(cdk.App(), environment=spec)).to_json()
    return document


def test_an_environment_without_endpoints_has_an_empty_dashboard():
    (page,) = template({})["Resources"].values()
    widgets = json.loads(page["Properties"]["DashboardBody"])["widgets"]
    assert [widget["type"] for widget in widgets] == ["text"]


def test_hundreds_of_endpoints_fit_into_one_template():
    endpoints = {f"search-{number}": MANY for number in range(300)}
    assert len(json.dumps(template(endpoints))) < LARGEST_TEMPLATE
