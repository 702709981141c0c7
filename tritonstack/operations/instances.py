"""Read the request that created a template's instance from its deployed foundation."""

from __future__ import annotations

from tritonstack.base import naming
from tritonstack.base.files import parse_json
from tritonstack.operations.aws import Cloud, if_present
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.spec.environments.templates import Instance


def read_instance(cloud: Cloud, spec: EnvironmentSpec) -> Instance | None:
    """Return the deployed instance of an environment name; None if there is none."""
    name = naming.parameter_name(spec.base, naming.INSTANCE_PARAMETER)
    answer = if_present(cloud.client("ssm").get_parameter, Name=name)
    return Instance(**parse_json(answer["Parameter"]["Value"])) if answer else None
