"""The table of what can be deployed, held against CloudFormation's own resource schemas."""

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from local_cloud.capabilities import actions, capabilities, capability_table
from local_cloud.cloudformation.providers import PROVIDERS

# Attributes that CloudFormation documents though its schemas do not list them as read-only.
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
def test_a_provider_agrees_with_the_types_own_schema(name):
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


def test_the_table_names_every_type_and_what_has_no_effect():
    table = capability_table()
    assert all(f"| {item.type} |" in table for item in capabilities())
    metadata = next(item for item in capabilities() if item.type == "AWS::CDK::Metadata")
    assert metadata.without_effect == ("Analytics",)
    assert "| AWS::CDK::Metadata | – | Analytics |" in table


def test_the_actions_that_the_cdk_needs_are_there():
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
    } <= set(actions())
