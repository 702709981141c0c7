"""An environment's own settings: tags, network, and names that collide in AWS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.environments import NAME, write_environment
from tests.project.one_endpoint import complaints, environment
from tritonstack.project.loading import load_workspace

PRIVATE = "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10"


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"aws:owner": "x"}, "tags.aws:owner: the tag prefix aws: is reserved -- choose another key"),
        (
            {"k" * 129: "x"},
            f"tags.{'k' * 129}: expected a tag key of 1 to 128 characters -- choose another key",
        ),
        (
            {"team": "x" * 257},
            "tags.team: expected a value of at most 256 characters, got 257 -- shorten it",
        ),
        (
            {"team": "search (web)"},
            "tags.team: invalid characters for a tag in 'search (web)' -- write letters, "
            "digits, spaces, and _ . : / = + - @",
        ),
        (
            {f"key-{index}": "x" for index in range(51)},
            "tags: expected at most 50 tags, got 51 -- remove some",
        ),
    ],
)
def test_tags_rejected_by_aws(tmp_path: Path, tags: dict[str, str], expected: str) -> None:
    assert complaints(tmp_path, environment("", tags=tags)) == [expected]


@pytest.mark.parametrize("tags", [{"Kosten stelle": "ä/b:c=1+2-3@d"}, {"empty": ""}, {"k" * 128: "v" * 256}])
def test_tags_accepted_by_aws(tmp_path: Path, tags: dict[str, str]) -> None:
    load_workspace(write_environment(tmp_path, environment("", tags=tags)), NAME)


@pytest.mark.parametrize(
    "cidr", ["127.0.0.0/16", "169.254.0.0/16", "8.8.0.0/16", "10.0.0.0/25", "10.0.0.0/8"]
)
def test_invalid_network_blocks(tmp_path: Path, cidr: str) -> None:
    assert complaints(tmp_path, environment("", network={"create": {"cidr": cidr}})) == [
        f"network.create.cidr: expected a block from /16 to /24 of {PRIVATE}, got {cidr!r} -- write one "
        "such as 10.40.0.0/16"
    ]


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "172.31.0.0/20", "192.168.7.0/24", "100.64.0.0/16"])
def test_blocks_of_private_addresses(tmp_path: Path, cidr: str) -> None:
    load_workspace(write_environment(tmp_path, environment("", network={"create": {"cidr": cidr}})), NAME)


def test_alarms_of_a_challenger_and_of_another_endpoint_have_different_names(tmp_path: Path) -> None:
    data = environment("challenger: {}")
    data["endpoints"]["e-challenger"] = {**data["endpoints"]["e"], "challenger": {"share": 0.5}}
    assert complaints(tmp_path, data) == [
        "endpoints.e-challenger: its alarm names would equal those of 'e''s challenger -- choose another name"
    ]
    del data["endpoints"]["e"]["challenger"]
    load_workspace(write_environment(tmp_path, data), NAME)


@pytest.mark.parametrize("days", ["MON-TUE-WED", "MON-", "mon", "MON,,TUE"])
def test_invalid_days(tmp_path: Path, days: str) -> None:
    schedule = f'{{at: "08:00", days: "{days}", min: 1, max: 1}}'
    assert complaints(tmp_path, environment(f"scaling: {{schedules: {{s: {schedule}}}}}")) == [
        f"endpoints.e.scaling.schedules.s.days: invalid days {days!r} -- write for example MON-FRI, "
        "or SAT,SUN"
    ]


def test_unknown_time_zones_are_rejected(tmp_path: Path) -> None:
    schedule = '{at: "08:00", timezone: Europe/Berlim, min: 1, max: 1}'
    (complaint,) = complaints(tmp_path, environment(f"scaling: {{schedules: {{s: {schedule}}}}}"))
    assert complaint.startswith("endpoints.e.scaling.schedules.s.timezone: ")
    assert "'Europe/Berlin'" in complaint


@pytest.mark.parametrize("days", ["MON-FRI", "MON-WED,FRI", "SAT,SUN", "SUN"])
def test_days_of_the_week(tmp_path: Path, days: str) -> None:
    schedule = f'{{at: "08:00", days: "{days}", min: 1, max: 1}}'
    project = write_environment(tmp_path, environment(f"scaling: {{schedules: {{s: {schedule}}}}}"))
    load_workspace(project, NAME)


def test_duplicate_list_items_are_rejected(tmp_path: Path) -> None:
    ids = {"subnet_ids": ["subnet-0a1b2c3d"] * 2, "security_group_ids": ["sg-0a1b2c3d"] * 2}
    data = environment(
        "",
        alarm_emails=["a@example.com", "b@example.com", "a@example.com"],
        network={"existing": {"vpc_id": "vpc-0a1b2c3d", **ids}},
    )
    assert complaints(tmp_path, data) == [
        "alarm_emails.2: duplicate item 'a@example.com' -- keep one of the two",
        "network.existing.subnet_ids.1: duplicate item 'subnet-0a1b2c3d' -- keep one of the two",
        "network.existing.security_group_ids.1: duplicate item 'sg-0a1b2c3d' -- keep one of the two",
    ]


@pytest.mark.parametrize("count", [0, 1])
def test_an_existing_network_has_two_subnets(tmp_path: Path, count: int) -> None:
    ids = [f"subnet-{number}a1b2c3d" for number in range(count)]
    existing = {"vpc_id": "vpc-0a1b2c3d", "subnet_ids": ids, "security_group_ids": ["sg-0a1b2c3d"]}
    assert complaints(tmp_path, environment("", network={"existing": existing})) == [
        "network.existing.subnet_ids: expected at least 2 subnets in different Availability Zones, "
        f"got {count} -- add a private subnet of another zone: SageMaker requires two"
    ]


@pytest.mark.parametrize("key", ["alias/team", "0a1b2c3d", "arn:aws:kms:eu-west-1:111111111111:alias/team"])
def test_the_key_of_the_bootstrap_is_an_arn(tmp_path: Path, key: str) -> None:
    (complaint,) = complaints(tmp_path, environment("", bootstrap_kms_key=key))
    assert complaint.startswith(f"bootstrap_kms_key: invalid KMS key ARN {key!r} -- write the key's ARN")


@pytest.mark.parametrize("prefix", ["aws", "aws-team", "ssm"])
def test_names_reserved_by_systems_manager(tmp_path: Path, prefix: str) -> None:
    assert complaints(tmp_path, environment("", name_prefix=prefix)) == [
        f"name_prefix: names starting with aws or ssm are reserved by Systems Manager, got {prefix!r} -- "
        "choose another name_prefix"
    ]


STEPS = "metric: cpu_utilization_percent, scale_out: [{above: 60, add: 1}, {above: 90, add: 4}]"


@pytest.mark.parametrize(
    ("endpoint", "changes", "field"),
    [
        ("scaling: {min_instances: 3, max_instances: 2}", {}, "endpoints.e.scaling"),
        (
            "scaling: {steps: {metric: cpu_utilization_percent, scale_out: [{above: 9, add: 1}, {above: 6, "
            "add: 2}], scale_in: {below: 3}}}",
            {},
            "endpoints.e.scaling.steps",
        ),
        (
            "scaling: {steps: {metric: cpu_utilization_percent, scale_out: [{above: 9, add: 1}, {above: 9, "
            "add: 2}], scale_in: {below: 3}}}",
            {},
            "endpoints.e.scaling.steps",
        ),
        (f"scaling: {{steps: {{{STEPS}, scale_in: {{below: 60}}}}}}", {}, "endpoints.e.scaling.steps"),
        ("", {"alarm_emails": ["nobody"]}, "alarm_emails.0"),
        (
            "",
            {"promotion": {"source": "dev", "windows": [{"start": "17:00", "end": "09:00"}]}},
            "promotion.windows.0",
        ),
        (
            "",
            {"promotion": {"source": "dev", "windows": [{"start": "09:00", "end": "09:00"}]}},
            "promotion.windows.0",
        ),
        ("", {"name_prefix": "p" * 30, "endpoints": {}}, ""),
        (
            "components: {memory_mb: 1024, min_copies: 3, max_copies: 2}, scaling: {}",
            {},
            "endpoints.e.components",
        ),
        ("instance_type: ml.c7g.xlarge", {}, "endpoints.e.instance_type"),
        ("scaling: {schedules: {s: {at: '8:00', min: 1, max: 1}}}", {}, "endpoints.e.scaling.schedules.s.at"),
        ("scaling: {schedules: {s: {at: '08:00', min: 2, max: 1}}}", {}, "endpoints.e.scaling.schedules.s"),
        ("", {"region": "Frankfurt"}, "region"),
        ("", {"permissions_boundary": "arn:aws:iam::111111111111:policy/x"}, "permissions_boundary"),
        ("", {"region": "ap-southeast-6", "triton_release": "25.04"}, ""),
        ("", {"network": {"create": {"cidr": "10.0.0.1/16"}}}, "network.create.cidr"),
        (
            "",
            {"network": {"create": {"availability_zone_ids": ["eu-west-1a", "euw1-az2"]}}},
            "network.create.availability_zone_ids.0",
        ),
        (
            "",
            {
                "network": {
                    "create": {"availability_zones": 2, "availability_zone_ids": ["euw1-az1", "euw1-az2"]}
                }
            },
            "network.create.availability_zones",
        ),
        (
            "",
            {
                "network": {
                    "existing": {
                        "vpc_id": "main",
                        "subnet_ids": ["subnet-0a1b2c3d", "subnet-1a1b2c3d"],
                        "security_group_ids": ["sg-0a1b2c3d"],
                    }
                }
            },
            "network.existing.vpc_id",
        ),
    ],
)
def test_contradicting_settings_are_rejected(
    tmp_path: Path, endpoint: str, changes: dict[str, Any], field: str
) -> None:
    (complaint,) = complaints(tmp_path, environment(endpoint, **changes))
    assert complaint.startswith(f"{field}: ")


def test_steps_next_to_each_other_are_accepted(tmp_path: Path) -> None:
    endpoint = f"scaling: {{steps: {{{STEPS}, scale_in: {{below: 59.9}}}}}}"
    workspace = load_workspace(write_environment(tmp_path, environment(endpoint)), NAME)
    assert workspace.spec.keep_locks == 10
