"""The AWS quotas that an environment needs at its peak."""

from __future__ import annotations

import re

import pytest
import yaml

from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.project.quotas import Quota, needed_quotas

BASE = """
name: prod
account: "111111111111"
region: eu-west-1
triton_release: "25.04"
"""


def quotas(endpoints: str, more: str = "") -> dict[str, Quota]:
    """The needed quotas by name."""
    data = {**yaml.safe_load(BASE + more), "endpoints": yaml.safe_load(endpoints)}
    return {quota.name: quota for quota in needed_quotas(EnvironmentSpec.model_validate(data, strict=False))}


def endpoint(name: str, options: str = "") -> str:
    return f"{name}: {{kind: ensemble, model: m, instance_type: ml.g5.xlarge{options}}}\n"


@pytest.mark.parametrize(
    ("options", "value", "counts"),
    [
        ("", 4, "2 doubled"),
        (", scaling: {max_instances: 3, schedules: {day: {at: '08:00', min: 4, max: 9}}}", 18, "9 doubled"),
        (
            ", scaling: {min_instances: 4, max_instances: 10}, "
            "rollout: {strategy: rolling, batch_percent: 25}",
            13,
            "10 3",
        ),
        (
            ", scaling: {min_instances: 2, max_instances: 5}, rollout: {strategy: canary, percent: 50}",
            10,
            "5 doubled",
        ),
        (", components: {memory_mb: 1024}, scaling: {max_instances: 3}", 3, "3"),
        (", asynchronous: {}", 4, "2 doubled"),
    ],
)
def test_machines_are_counted_with_what_an_update_adds(options: str, value: int, counts: str) -> None:
    quota = quotas(endpoint("e", options))["ml.g5.xlarge for endpoint usage"]
    assert (quota.service, quota.value) == ("sagemaker", value)
    (reason,) = quota.reasons
    assert re.findall(r"\d+|doubled", reason) == counts.split()


def test_endpoints_and_variants_add_up_by_type() -> None:
    shadow = ", shadow: {instance_type: ml.c7i.large, scaling: {max_instances: 3}}"
    needed = quotas(endpoint("a", shadow) + endpoint("b"))
    quota = needed["ml.g5.xlarge for endpoint usage"]
    assert (quota.service, quota.value, quota.least) == ("sagemaker", 8, 2)
    assert [reason.partition(":")[0] for reason in quota.reasons] == ["a, main", "b"]
    assert needed["ml.c7i.large for endpoint usage"].value == 6
    assert needed["Number of instances across active endpoints"].value == 14
    assert needed["Scalable targets for SageMaker"].value == 3


def test_a_fixed_variant_has_no_scalable_target() -> None:
    needed = quotas(endpoint("e", ", scaling: {min_instances: 2, max_instances: 2}"))
    assert "Scalable targets for SageMaker" not in needed


def test_only_created_networks_count_toward_quotas() -> None:
    made = quotas(endpoint("e"), "network: {create: {}}")
    assert made["VPCs per Region"].value == 1
    assert made["Interface VPC endpoints per VPC"].value == 3
    subnets = "[subnet-0a1b2c3d, subnet-1a1b2c3d]"
    there = f"{{vpc_id: vpc-0a1b2c3d, subnet_ids: {subnets}, security_group_ids: [sg-0a1b2c3d]}}"
    assert "VPCs per Region" not in quotas(endpoint("e"), f"network: {{existing: {there}}}")


def test_an_environment_without_endpoints_needs_nothing() -> None:
    assert quotas("{}") == {}
