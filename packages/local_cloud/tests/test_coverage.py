"""What the local cloud covers, compared with CloudFormation's resource schemas; COVERAGE.md is up to date."""

from pathlib import Path

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from tritonstack.base.results import document
from tritonstack_local.cloudformation.providers import PROVIDERS
from tritonstack_local.coverage import capabilities, main

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
    assert provider.attributes.keys() <= read_only | _DOCUMENTED.get(name, set())
    identifiers = {path.split("/")[2] for path in schema["primaryIdentifier"]}
    assert provider.name.property is None or provider.name.property in known
    assert not identifiers & {prop for prop, declared in provider.properties.items() if not declared.effect}


def test_the_capabilities_are_data_that_json_can_write():
    found = capabilities()
    data = document(found)
    assert data.keys() == {"types", "actions", "limits", "rejected"}
    assert [item["type"] for item in data["types"]] == [item.type for item in found.types]
    assert data["rejected"] == found.rejected
    assert all(f"| {what} | {why} |" in found.page() for what, why in found.rejected.items())


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
    found = capabilities().limits
    assert len({limit.name for limit in found}) == len(found)
    assert all(limit.reason[0].isupper() and limit.reason.endswith(".") for limit in found)
    by_service = {limit.service for limit in found}
    assert {"CloudWatch", "EC2", "IAM", "KMS", "S3", "SageMaker", "SNS", "EventBridge"} <= by_service
    told = {limit.name: limit.reason for limit in found}
    assert told["AWS::IAM::Role"].startswith("It is stored and returned; no policy")
    assert told["AWS::Events::Rule.Targets.RetryPolicy"].endswith("an event is sent once.")
    assert told["ContainerDefinition.ContainerHostname"].endswith("needs no host name.")


def test_the_page_is_up_to_date(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["coverage"])
    main()
    command = "python -m tritonstack_local.coverage packages/local_cloud/COVERAGE.md"
    assert PAGE.read_text() == capsys.readouterr().out, f"COVERAGE.md is outdated; run `{command}`"
