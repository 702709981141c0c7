"""An instance of a template with everything that an environment can have.

Every resource is tagged with owner, purpose, and expiry; another expiry replaces nothing.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from tests.stacks.assemblies import EVERY, Assembly, Synthesize, lock_everything, write_project
from tritonstack.files.environment.templates import Instance
from tritonstack.files.loading import ProjectFiles

REGION = "us-east-1"
LEASE = {"owner": "ann", "purpose": "tests", "expires": "2030-01-01T00:00:00Z"}
UNTOLD = {"AWS::CodeBuild::Project"}
"""Their schemas do not say that they take tags; CodeBuild's documentation does: they change in place."""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, synthesize: Synthesize) -> Assembly:
    project = write_project(tmp_path_factory.mktemp("project"))
    lock_everything(project, "every")
    head = "template: {locks: every, purpose: tests}\n"
    project.template_file("all").write_text(head + EVERY.replace("name: every", "name: ${name}"))
    request = Instance("all", "pr-1", LEASE["owner"], LEASE["expires"], {})
    return synthesize(ProjectFiles(project).instance(request))


def resources(assembly: Assembly) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for stack in assembly.stacks:
        for name, resource in json.loads(assembly.text(stack)).get("Resources", {}).items():
            yield f"{stack}.{name}", resource["Type"], resource.get("Properties", {})


def schema(kind: str) -> dict[str, Any]:
    document: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema
    return document


def takes_tags(kind: str) -> bool:
    if not kind.startswith("AWS::") or kind == "AWS::CDK::Metadata":
        return False
    properties = schema(kind)["properties"]
    tagging = schema(kind).get("tagging", {})
    return kind in UNTOLD or bool(tagging.get("taggable", "Tags" in properties) and "Tags" in properties)


def tags_of(properties: dict[str, Any]) -> dict[str, str]:
    tags = properties.get("Tags", {})
    return tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}


def test_every_taggable_resource_has_owner_purpose_and_expiry(instance):
    tagged = [
        (name, tags_of(properties)) for name, kind, properties in resources(instance) if takes_tags(kind)
    ]
    assert len(tagged) > 50
    assert [name for name, tags in tagged if not LEASE.items() <= tags.items()] == []


def test_a_changed_expiry_updates_tags_in_place(instance):
    """So an extension rolls out no endpoint: SageMaker's configurations and models accept new tags."""
    kinds = {kind for _, kind, _ in resources(instance) if takes_tags(kind)} - UNTOLD
    assert kinds >= {"AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"}
    for kind in sorted(kinds):
        assert schema(kind).get("tagging", {}).get("tagUpdatable") is True, kind
        assert "/properties/Tags" not in schema(kind).get("createOnlyProperties", []), kind


def test_an_instance_records_its_parameters(instance):
    (parameter,) = [
        properties["Value"]
        for _, kind, properties in resources(instance)
        if kind == "AWS::SSM::Parameter" and properties["Name"] == "/tritonstack-pr-1/instance"
    ]
    assert Instance(**json.loads(parameter)) == instance.workspace.instance


def test_stacks_are_not_protected(instance):
    assert instance.stacks
    for stack in instance.stacks:
        assert not instance.manifest(stack)["properties"].get("terminationProtection"), stack
