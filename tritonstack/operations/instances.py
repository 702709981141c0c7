"""Read the request that created a template's instance from its deployed foundation."""

from __future__ import annotations

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import aws_error_code
from tritonstack.base.files import parse_json
from tritonstack.operations.aws import Cloud
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.spec.environments.templates import Instance


def read_instance(cloud: Cloud, spec: EnvironmentSpec) -> Instance | None:
    """Return the deployed instance of an environment name; None if there is none."""
    try:
        parameter = cloud.client("ssm").get_parameter(
            Name=naming.parameter_name(spec.base, naming.INSTANCE_PARAMETER)
        )
    except ClientError as error:
        if aws_error_code(error) == "ParameterNotFound":
            return None
        raise
    return Instance(**parse_json(parameter["Parameter"]["Value"]))
