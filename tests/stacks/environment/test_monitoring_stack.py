"""The dashboard of an environment: which endpoints it shows, and its size limit."""

import json
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from stacks.monitoring import MonitoringStack
from tritonstack.spec.environments.environment import EnvironmentSpec

LARGEST_TEMPLATE = 1_048_576

ENDPOINTS = {
    "search": {
        "kind": "ensemble",
        "model": "encoder",
        "instance_type": "ml.g5.xlarge",
        "scaling": {"min_instances": 1, "max_instances": 3},
        "challenger": {"instance_type": "ml.g5.2xlarge"},
    },
    "queue": {
        "kind": "single",
        "model": "encoder",
        "instance_type": "ml.c7i.xlarge",
        "asynchronous": {},
        "alarms": {"backlog": 30},
    },
    "copies": {
        "kind": "single",
        "model": "encoder",
        "instance_type": "ml.g5.xlarge",
        "components": {"memory_mb": 4096},
    },
    "many": {"kind": "multi-model", "models": ["encoder"], "instance_type": "ml.g5.xlarge"},
}


def environment(endpoints: dict[str, Any], **more: Any) -> EnvironmentSpec:
    fields = {
        "name": "dev",
        "account": "123456789012",
        "region": "eu-central-1",
        "triton_release": "25.04",
        "name_prefix": "shop",
        "tags": {"team": "search"},
        "prices": {"ml.g5.xlarge": 1.408, "ml.c7i.xlarge": 0.24},
        "endpoints": endpoints,
    }
    return EnvironmentSpec.model_validate_json(json.dumps(fields | more))


def template(spec: EnvironmentSpec) -> dict[str, Any]:
    document: dict[str, Any] = Template.from_stack(MonitoringStack(cdk.App(), environment=spec)).to_json()
    return document


def bodies(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(item["Properties"]["DashboardBody"]) for item in document["Resources"].values()]


def test_an_environment_without_endpoints_has_an_empty_dashboard():
    (page,) = bodies(template(environment({})))
    assert [widget["type"] for widget in page["widgets"]] == ["text"]


def test_hundreds_of_endpoints_fit_into_one_template():
    endpoints = {f"search-{number}": ENDPOINTS["many"] for number in range(300)}
    assert len(json.dumps(template(environment(endpoints)))) < LARGEST_TEMPLATE
