"""An AWS account simulated by moto, and templates of endpoints from this project's stacks."""

import json
from collections.abc import Callable

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID

from stacks.environment import add_environment
from tests.cli.conftest import account, json_results
from tests.moto_aws import simulated_aws
from tests.projects import write_project
from tests.stacks.assemblies import lock_everything, new_app
from tritonstack.base import naming
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.synth.assembly import Assembly, Template

__all__ = ["account", "json_results"]

ENVIRONMENT = """\
name: dev
account: "111111111111"
region: eu-west-1
triton_release: "25.04"
endpoints:
  search:
    kind: ensemble
    model: minilm
    instance_type: {instance_type}
    scaling: {{min_instances: {least}, max_instances: 4}}
"""
STACK = naming.endpoint_stack_name("tritonstack-dev", "search")

Synthesized = Callable[..., Assembly]


PLAYED = Cloud(
    DEFAULT_ACCOUNT_ID, "us-east-1", {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
)
"""One for all tests: its clients keep nothing of what moto plays, and are slow to make."""


@pytest.fixture
def cloud():
    with simulated_aws():
        yield PLAYED


@pytest.fixture(scope="session")
def synthesized(tmp_path_factory):
    """Make the assembly of an environment with one endpoint, each only once."""
    assemblies: dict[tuple[str, int], Assembly] = {}

    def synthesize(*, instance_type: str = "ml.c7i.xlarge", least: int = 2) -> Assembly:
        key = (instance_type, least)
        if key not in assemblies:
            project = write_project(tmp_path_factory.mktemp("project"))
            text = ENVIRONMENT.format(instance_type=instance_type, least=least)
            project.environment_file("dev").write_text(text)
            folder = tmp_path_factory.mktemp("assembly")
            app = new_app(folder)
            add_environment(app, workspace=lock_everything(project, "dev"))
            app.synth()
            assemblies[key] = Assembly(folder)
        return assemblies[key]

    return synthesize


@pytest.fixture
def template(synthesized):
    """The stack of an endpoint that scales, for a test to modify."""
    changeable: Template = json.loads(json.dumps(synthesized().template(STACK)))
    return changeable
