"""What follows from an endpoint's records, and what keeps an endpoint from being deployed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.endpoints import SingleEndpoint
from catalog.environments import EnvironmentSpec
from catalog.errors import FileProblem
from catalog.locks import Lock, LockedArtifact, write_lock
from catalog.models import ModelSpec
from catalog.project import Project
from catalog.workspace import load_workspace
from stacks.constructs.serving_model import container_environment
from stacks.deployment import EndpointDeployment, plan_deployment

GB = 1024**3


def deployment(
    *, model: str = "encoder", archive_bytes: int = 1, unpacked_bytes: int = 1
) -> EndpointDeployment:
    endpoint = SingleEndpoint(kind="ensemble", model=model, instance_type="ml.c7i.xlarge")
    return EndpointDeployment(
        environment=EnvironmentSpec(
            name="sample",
            account="123456789012",
            region="eu-central-1",
            triton_release="25.04",
            endpoints={"plain": endpoint},
        ),
        name="plain",
        endpoint=endpoint,
        model=ModelSpec.model_validate_json(
            f'{{"name": "{model}", "description": "d", "source": "file://weights",'
            ' "recipe": {"kind": "text-embedding"}, "test_inputs": ["a"]}'
        ),
        artifact=LockedArtifact(
            digest="ab" * 32,
            spec_hash="cd" * 32,
            archive_bytes=archive_bytes,
            unpacked_bytes=unpacked_bytes,
        ),
    )


def locked(project: Project, **changes: int | str) -> EndpointDeployment | list[FileProblem]:
    """The plan of sample's endpoint `plain` after its artifact's lock entry was changed."""
    workspace = load_workspace(project, "sample")
    entry = LockedArtifact(
        digest="ab" * 32,
        spec_hash=workspace.models["encoder"].record.hash,
        archive_bytes=10,
        unpacked_bytes=20,
    ).model_copy(update=changes)
    write_lock(project.lock_file("sample"), Lock(models={"encoder": {"cpu": entry}}))
    return plan_deployment(load_workspace(project, "sample"), "plain")


def only(planned: EndpointDeployment | list[FileProblem]) -> FileProblem:
    assert isinstance(planned, list)
    (problem,) = planned
    return problem


@pytest.fixture
def project(bare_project: Callable[[], Project]) -> Project:
    return bare_project()


@given(
    archive_bytes=st.integers(min_value=1, max_value=300 * GB),
    unpacked_bytes=st.integers(min_value=1, max_value=300 * GB),
)
def test_volume_holds_the_archive_and_its_files_twice(archive_bytes, unpacked_bytes):
    plan = deployment(archive_bytes=archive_bytes, unpacked_bytes=unpacked_bytes)
    assert plan.volume_gb >= 30
    assert plan.volume_gb * GB > archive_bytes + 2 * unpacked_bytes
    # And is not made much larger than that: a gigabyte costs money on every machine.
    assert plan.volume_gb <= max(30, (archive_bytes + 2 * unpacked_bytes) // GB + 11)


@given(model=st.from_regex(r"[a-z](-?[a-z0-9]){0,19}", fullmatch=True))
def test_container_environment_keeps_within_cloudformations_limits(model):
    environment = container_environment(deployment(model=model))
    assert len(environment) <= 100
    assert all(len(text) <= 1024 for pair in environment.items() for text in pair)


def test_a_built_endpoint_has_a_plan(project):
    plan = locked(project)
    assert isinstance(plan, EndpointDeployment)
    assert plan.artifact.digest == "ab" * 32


def test_without_an_artifact_the_file_line_and_remedy_are_named(project):
    problem = only(plan_deployment(load_workspace(project, "sample"), "plain"))
    assert str(problem).startswith(f"{project.environment_file('sample')}:11: endpoints.plain.model: ")
    assert "sample.lock.yaml has no artifact of 'encoder' for cpu" in str(problem)
    assert "help: run `tritonstack build sample`" in str(problem)


def test_an_artifact_of_another_version_of_the_model_is_refused(project):
    problem = only(locked(project, spec_hash="00" * 32))
    assert problem.file == project.lock_file("sample")
    assert "built from another version" in problem.message


def test_an_artifact_that_no_volume_holds_is_refused(project):
    problem = only(locked(project, unpacked_bytes=300 * GB))
    assert problem.line == 12
    assert "needs a volume of 611 GB, SageMaker attaches at most 512 GB" in problem.message
