"""What the local cloud covers, compared with CloudFormation's resource schemas; COVERAGE.md is up to date."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from tritonstack.base.results import document
from tritonstack_local.cloudformation.providers import PROVIDERS
from tritonstack_local.coverage import (
    actions,
    capabilities,
    coverage_page,
    limits,
    rejected,
)

PAGE = Path(__file__).parents[1] / "COVERAGE.md"
# Attributes that CloudFormation documents, but that its schemas do not list as read-only.
_DOCUMENTED = {
    "AWS::EC2::Subnet": {"AvailabilityZone"},
    "AWS::EC2::VPC": {"CidrBlock"},
    "AWS::SageMaker::Endpoint": {"EndpointName"},
    "AWS::SageMaker::EndpointConfig": {"EndpointConfigName"},
    "AWS::SageMaker::Model": {"ModelName"},
    "AWS::SNS::Topic": {"TopicName"},
    "AWS::SSM::Parameter": {"Type", "Value"},
}


@pytest.mark.parametrize("name", sorted(PROVIDERS.keys() - {"AWS::CDK::Metadata"}))
def test_a_provider_matches_the_resource_schema(name):
    provider = PROVIDERS[name]
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", name).schema
    known = set(schema["properties"])
    assert set(provider.properties) <= known
    create_only = {path.split("/")[2] for path in schema.get("createOnlyProperties", [])}
    ours = {prop for prop, declared in provider.properties.items() if declared.create_only}
    assert ours == create_only & set(provider.properties)
    required = {prop for prop, declared in provider.properties.items() if declared.required}
    assert set(schema.get("required", [])) <= required
    read_only = {path.split("/")[2] for path in schema.get("readOnlyProperties", [])}
    assert provider.attribute_names <= read_only | _DOCUMENTED.get(name, set())
    identifiers = {path.split("/")[2] for path in schema["primaryIdentifier"]}
    assert provider.name_property is None or provider.name_property in known
    assert not identifiers & {prop for prop, declared in provider.properties.items() if not declared.effect}


def test_the_table_lists_every_type_and_properties_without_effect():
    found = capabilities()
    table = found.type_table()
    assert {item.type for item in found.types} == PROVIDERS.keys()
    assert all(f"| {item.type} |" in table for item in found.types)
    metadata = next(item for item in found.types if item.type == "AWS::CDK::Metadata")
    assert metadata.without_effect == ("Analytics",)
    assert "| AWS::CDK::Metadata | – | Analytics |" in table


def test_the_capabilities_are_frozen_data_that_json_can_write():
    found = capabilities()
    with pytest.raises(FrozenInstanceError):
        found.rejected = {}
    data = document(found)
    assert data.keys() == {"types", "actions", "limits", "rejected"}
    assert [item["type"] for item in data["types"]] == [item.type for item in found.types]
    assert data["rejected"] == found.rejected
    assert all(f"| {what} | {why} |" in found.rejection_table() for what, why in found.rejected.items())


def test_the_actions_that_the_cdk_needs_exist():
    assert {
        "CreateChangeSet",
        "DescribeChangeSet",
        "ExecuteChangeSet",
        "DeleteChangeSet",
        "CreateStack",
        "UpdateStack",
        "DeleteStack",
        "DescribeStacks",
        "DescribeStackEvents",
        "GetTemplate",
        "ListStackResources",
        "RollbackStack",
    } <= set(actions()["CloudFormation"])
    assert {"CreateEndpoint", "UpdateEndpoint", "DeleteEndpoint"} <= set(actions()["SageMaker"])


def test_properties_without_effect_have_a_reason():
    properties = {
        f"{name}.{prop}": known
        for name, provider in PROVIDERS.items()
        for prop, known in provider.properties.items()
    }
    assert properties
    assert [name for name, known in properties.items() if not (known.effect or known.reason)] == []


def test_members_with_a_reason_exist():
    members = [
        (f"{name}.{prop}", known, path)
        for name, provider in PROVIDERS.items()
        for prop, known in provider.properties.items()
        for path in known.inner
    ]
    assert members
    for prop, known, path in members:
        value: object = "x"
        for part in reversed(path.split(".")):
            value = {part: value}
        assert list(known.violations([value] if known.shape else value, prop)) == []


def test_every_limit_names_its_service_and_is_listed_once():
    found = limits()
    assert len({limit.name for limit in found}) == len(found)
    assert all(limit.reason[0].isupper() and limit.reason.endswith(".") for limit in found)
    by_service = {limit.service for limit in found}
    assert {"CloudWatch", "EC2", "IAM", "KMS", "S3", "SageMaker", "SNS", "EventBridge"} <= by_service
    told = {limit.name: limit.reason for limit in found}
    assert told["AWS::IAM::Role"].startswith("It is stored and returned; no policy")
    assert told["AWS::Events::Rule.Targets.RetryPolicy"].endswith("an event is sent once.")
    assert told["ContainerDefinition.ContainerHostname"].endswith("needs no host name.")
    assert all(line in capabilities().limit_tables() for line in ("\nKMS\n", "| AWS::KMS::Key.KeyPolicy |"))


def test_rejections_are_listed_with_their_reason():
    found = rejected()
    assert found["PutMetricAlarm.ThresholdMetricId"] == "there is no anomaly detection"
    assert "CreateEndpointConfig.AsyncInferenceConfig" in found
    assert "PutCompositeAlarm.ActionsSuppressor" in found


def test_fields_that_moto_drops_are_listed_as_not_kept(account):
    """Fields that are not even stored are marked in the list."""
    logs = account.client("logs")
    logs.create_log_group(logGroupName="g", logGroupClass="INFREQUENT_ACCESS")
    assert "logGroupClass" not in logs.describe_log_groups()["logGroups"][0]
    sns = account.client("sns")
    topic = sns.create_topic(Name="t", Attributes={"TracingConfig": "Active"})["TopicArn"]
    assert "TracingConfig" not in sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    told = {limit.name: limit.reason for limit in limits()}
    assert told["AWS::Logs::LogGroup.LogGroupClass"].startswith("Not stored")
    assert told["AWS::SNS::Topic.TracingConfig"].startswith("Not stored")


def test_the_page_is_up_to_date():
    command = "python -m tritonstack_local.coverage packages/local_cloud/COVERAGE.md"
    assert PAGE.read_text() == coverage_page(), f"COVERAGE.md is outdated; run `{command}`"


def test_the_page_lists_every_type_limit_and_rejection():
    rows = {line.split(" | ")[0].removeprefix("| ") for line in PAGE.read_text().splitlines()}
    assert PROVIDERS.keys() <= rows
    assert {limit.name for limit in limits()} <= rows
    assert rejected().keys() <= rows
