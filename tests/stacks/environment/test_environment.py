"""What holds for all stacks of an environment: boundary, tags, names, and deployment order."""

import json
from collections.abc import Iterator
from typing import Any

from tests.stacks.assemblies import Assembly

NAMES = (
    "AlarmName",
    "AliasName",
    "BucketName",
    "DashboardName",
    "EndpointName",
    "LogGroupName",
    "Name",
    "RepositoryName",
    "TopicName",
)
"""Properties that give a resource its name."""


def resources(assembly: Assembly) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every resource of every stack, with a name for messages."""
    for stack in assembly.stacks:
        for logical_id, resource in json.loads(assembly.text(stack)).get("Resources", {}).items():
            yield f"{stack}/{logical_id}", resource


def test_every_name_starts_with_the_environment(walled, sample):
    for assembly in (walled, sample):
        base = assembly.workspace.spec.base
        assert all(stack.startswith(f"{base}-") for stack in assembly.stacks)
        for name, resource in resources(assembly):
            for physical_name in (resource["Properties"].get(key) for key in NAMES):
                if isinstance(physical_name, str):
                    bare = physical_name.removeprefix("alias/").removeprefix("/aws/sagemaker/Endpoints/")
                    assert bare.removeprefix("/").startswith(base), f"{name} is named {physical_name}"


def depends_on(assembly: Assembly, stack: str) -> set[str]:
    """Return all stacks that are deployed before one."""
    direct = {d for d in assembly.manifest(stack).get("dependencies", []) if not d.endswith(".assets")}
    return direct.union(*(depends_on(assembly, dependency) for dependency in direct))


def test_stacks_are_deployed_in_dependency_order(walled, sample):
    foundation, network = "tritonstack-walled-foundation", "tritonstack-walled-network"
    assert depends_on(walled, foundation) == set()
    assert depends_on(walled, network) == {foundation}
    assert depends_on(walled, "tritonstack-walled-endpoint-captured") == {foundation, network}
    assert depends_on(sample, "tritonstack-sample-endpoint-plain") == {"tritonstack-sample-foundation"}
    assert depends_on(sample, "tritonstack-sample-build") == {"tritonstack-sample-foundation"}
