"""Parse the CDK's diff of resources into records."""

from typing import Any

import pytest

from tritonstack.operate.deploy.cdk_changes import resource_changes

LINES = """\
Stack tritonstack-dev-endpoint-search (aws://111111111111/eu-west-1)
Resources
[~] AWS::SageMaker::Model Model/Model Model2AD80A05 replace
 └─ [~] PrimaryContainer (requires replacement)
     └─ [~] AWS::Not::AResource Nested Nested replace
[~] AWS::Logs::LogGroup Serving/Log/Group ServingLogGroup4BD91CBE
[~] AWS::CloudWatch::Alarm Serving/Alarms/latency Latency1 may be replaced
[-] AWS::SNS::Topic Serving/Topics/Old Old1 destroy
[-] AWS::S3::Bucket Data Data1 orphan
[+] AWS::SNS::Topic Serving/Topics/New New1

Stack tritonstack-dev-monitoring
Resources
[~] AWS::CloudWatch::Dashboard Dashboard1 replace
""".splitlines()
SEARCH = "tritonstack-dev-endpoint-search"


def test_replaced_deleted_and_orphaned_resources_are_reported():
    changes = resource_changes(LINES, {}, {})
    assert [(change.logical_id, change.action) for change in changes[SEARCH]] == [
        ("Model2AD80A05", "replaced"),
        ("Latency1", "maybe replaced"),
        ("Old1", "deleted"),
        ("Data1", "orphaned"),
    ]
    assert [change.logical_id for change in changes["tritonstack-dev-monitoring"]] == ["Dashboard1"]


def dashboard(name: Any) -> dict[str, Any]:
    return {
        "Resources": {
            "Dashboard1": {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardName": name}}
        }
    }


@pytest.mark.parametrize(
    ("before", "after", "rejected"),
    [
        ("one", "one", True),
        ("one", "two", False),
        ({"Fn::Sub": "x"}, {"Fn::Sub": "x"}, False),
        ("one", None, False),
    ],
)
def test_replacement_with_a_fixed_name_is_rejected(before, after, *, rejected):
    stack = "tritonstack-dev-monitoring"
    (change,) = resource_changes(LINES, {stack: dashboard(before)}, {stack: dashboard(after)})[stack]
    assert change.rejected is rejected
    assert change.summary.startswith(
        "rejected: " if rejected else "replaces AWS::CloudWatch::Dashboard Dashboard1"
    )
