"""What an environment's file cannot say: field, code, line, and the words that an error needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.environments import NAME, write_environment
from tests.files.one_endpoint import complaints, environment, names, violations
from tritonstack.files.loading import load_workspace

REJECTED = [
    pytest.param(entry, id=f"{section}: {' '.join(entry['told'])}")
    for section, entries in yaml.safe_load(
        (Path(__file__).parent / "rejected_environments.yaml").read_text()
    ).items()
    for entry in entries
]
FLEET = "arn:aws:codebuild:eu-west-1:111111111111:fleet/gpus:0a1b2c3d-0000-4000-8000-0a1b2c3d4e5f"
PREFIX = "p" * 20
ROOM = 63 - len(f"{PREFIX}-{NAME}-")
"""The longest name of an endpoint with this prefix."""


def assert_told(folder: Path, data: dict[str, Any], told: dict[str, str]) -> None:
    """Assert that the errors have these fields, their codes, and the words that follow."""
    errors = violations(write_environment(folder, data))
    fields = {f"endpoints.e{field}" if field.startswith(".") else field: told[field] for field in told}
    assert {error.field: error.code for error in errors} == {
        field: text.split()[0] for field, text in fields.items()
    }
    assert len(errors) == len(fields)
    assert all(names(error, fields[error.field].partition(" ")[2]) for error in errors), errors


@pytest.mark.parametrize("entry", REJECTED)
def test_an_entry_is_rejected(tmp_path: Path, entry: dict[str, Any]) -> None:
    data = environment(entry.get("endpoint", {}), **entry.get("changes", {}))
    assert_told(tmp_path, data, entry["told"])


def named(endpoint: str, **options: object) -> dict[str, Any]:
    """Return an environment whose one endpoint has this name."""
    data = environment(options, name_prefix=PREFIX)
    return {**data, "endpoints": {endpoint: data["endpoints"]["e"]}}


COMPONENT: dict[str, Any] = {"components": {"memory_mb": 512}}
LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "value of a variable": (
        environment({"environment": {"OWN": "x" * 1024}}),
        environment({"environment": {"OWN": "x" * 1025}}),
        {".environment.OWN": "TS114 1,024 1,025"},
    ),
    "name of a variable": (
        environment({"environment": {"X" * 1024: "x"}}),
        environment({"environment": {"X" * 1025: "x"}}),
        {f".environment.{'X' * 1025}": "TS114 1,024 1,025"},
    ),
    "variables": (
        environment({"environment": {f"OWN_{number}": "x" for number in range(92)}}),
        environment({"environment": {f"OWN_{number}": "x" for number in range(98)}}),
        {".environment": "TS111 100 106 8"},
    ),
    "all variables": (
        environment({"environment": {f"OWN_{number}": "x" * 1000 for number in range(31)}}),
        environment({"environment": {f"OWN_{number}": "x" * 1000 for number in range(33)}}),
        {".environment": "TS111 32,768 33,615"},
    ),
    "key of a tag": (
        environment(tags={"k" * 128: "v"}),
        environment(tags={"k" * 129: "v"}),
        {f"tags.{'k' * 129}": "TS111 128"},
    ),
    "value of a tag": (
        environment(tags={"team": "x" * 256}),
        environment(tags={"team": "x" * 257}),
        {"tags.team": "TS111 256 257"},
    ),
    "tags": (
        environment(tags={f"key-{number}": "x" for number in range(50)}),
        environment(tags={f"key-{number}": "x" for number in range(51)}),
        {"tags": "TS111 50 51"},
    ),
    "name of an endpoint": (named("e" * ROOM), named("e" * (ROOM + 1)), {"": "TS111 63 64"}),
    "name of a component": (
        named("e" * (ROOM - len("-component")), **COMPONENT),
        named("e" * (ROOM - len("-component") + 1), **COMPONENT),
        {"": "TS111 63 64"},
    ),
}
"""The longest that is accepted, the shortest that is not, and what is told of that."""


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_is_the_one_of_aws(tmp_path: Path, limit: str) -> None:
    accepted, rejected, told = LIMITS[limit]
    load_workspace(write_environment(tmp_path, accepted), NAME)
    assert_told(tmp_path, rejected, told)


def test_violation_shared_by_two_variants_is_reported_once(tmp_path: Path) -> None:
    data = environment("instance_type: ml.p3.2xlarge, shadow: {share: 0.5}")
    assert complaints(tmp_path, data) == [("endpoints.e.instance_type", "TS119")]


SCHEDULE = "scaling: {{schedules: {{s: {{at: '08:00', days: '{}', min: 1, max: 1}}}}}}"
STEPS = "metric: cpu_utilization_percent, scale_out: [{above: 60, add: 1}, {above: 90, add: 4}]"
ON_P4D = "instance_type: ml.p4d.24xlarge"


@pytest.mark.parametrize(
    ("endpoint", "changes"),
    [
        ("asynchronous: {}, scaling: {min_instances: 0}", {}),
        ("asynchronous: {}, scaling: {schedules: {night: {at: '20:00', min: 0, max: 0}}}", {}),
        ("components: {memory_mb: 1024}, scaling: {min_instances: 0}", {}),
        ("instance_type: ml.t2.medium, scaling: {min_instances: 2, max_instances: 2}", {}),
        ("scaling: {min_instances: 2, max_instances: 2}, rollout: {strategy: canary, percent: 50}", {}),
        # The smallest batches and the longest time limits: what starts is quicker than those.
        (
            "scaling: {min_instances: 20, max_instances: 20}, startup_timeout_s: 3600, "
            "rollout: {strategy: rolling, batch_percent: 5}, download_timeout_s: 3600",
            {},
        ),
        (
            "challenger: {}, rollout: {strategy: all-at-once, roll_back_on: [latency-p99, overhead-p99, "
            "server-errors, client-errors, triton-errors]}",
            {},
        ),
        ("kind: multi-model, instance_type: ml.g5.16xlarge", {}),
        ("instance_type: ml.g5.xlarge, inference_ami: al2-ami-sagemaker-inference-gpu-3-1", {}),
        ('environment: {SAGEMAKER_TRITON_LOG_VERBOSE: "2"}', {}),
        ("environment: {SAGEMAKER_TRITON_ADDITIONAL_ARGS: --load-model=x}", {}),
        ("components: {memory_mb: 8191, max_copies: 2}", {}),
        ("instance_type: ml.g5.xlarge, scaling: {gpu_utilization_percent: 60}", {}),
        (f"scaling: {{steps: {{{STEPS}, scale_in: {{below: 59.9}}}}}}", {}),
        *((SCHEDULE.format(days), {}) for days in ("MON-FRI", "MON-WED,FRI", "SAT,SUN", "SUN")),
        # A price implies that the region offers the type.
        ("instance_type: ml.p5.48xlarge", {"prices": {"ml.p5.48xlarge": 70.0}}),
        (ON_P4D, {"builds": {"enabled": False}}),
        (ON_P4D, {"builds": {"machines": {"sm80": {"by_hand": True}}}}),
        (ON_P4D, {"builds": {"machines": {"sm80": {"fleet": FLEET}}}}),
        *(
            ("", {"network": {"create": {"cidr": cidr}}})
            for cidr in ("10.0.0.0/16", "172.31.0.0/20", "192.168.7.0/24", "100.64.0.0/16")
        ),
        ("", {"tags": {"Kosten stelle": "ä/b:c=1+2-3@d", "k": ""}}),
        *(
            ("instance_type: ml.c6i.large", {"region": region, **change})
            for region in ("ap-east-2", "ca-west-1", "mx-central-1")
            for change in ({"builds": {"enabled": False}}, {"region_features": ["builds"]})
        ),
        *(
            (
                "instance_type: ml.c5.xlarge",
                {"region": region, "network": {"create": {"availability_zones": zones}}},
            )
            for region, zones in (("us-west-1", 2), ("us-west-2", 3))
        ),
    ],
)
def test_values_at_the_limits_are_accepted(tmp_path: Path, endpoint: str, changes: dict[str, Any]) -> None:
    load_workspace(write_environment(tmp_path, environment(endpoint, **changes)), NAME)
