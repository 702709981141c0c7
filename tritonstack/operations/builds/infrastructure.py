"""What an environment's build stack has made in its account, as the stack itself tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud, error_code


class BuildStackError(TritonstackError):
    """What builds models in the account is not there, or is not what was asked for."""


@dataclass(frozen=True)
class BuildGround:
    """What a job is started with."""

    base: str
    bucket: str
    """Where artifacts lie."""
    source: str
    """bucket/key of the repository's files that the stack was deployed with."""
    images: Mapping[str, str]
    """The builder's image for machines of each kind, cpu and gpu."""
    endpoint_images: Sequence[str] = ()
    """The images of the project's own that endpoints run."""
    processing_role: str | None = None
    token_secret: str | None = None
    timeout_minutes: int = 120
    concurrent: int | None = None
    """Most builds that each of the stack's projects runs at once; None if only the account limits them."""
    tags: Mapping[str, str] | None = None

    def image(self, hardware: str) -> str:
        """The builder's image for a kind of machine."""
        kind = "cpu" if hardware == "cpu" else "gpu"
        if kind not in self.images:
            raise BuildStackError(
                f"stack {naming.build_stack_name(self.base)} has no builder for {hardware}",
                remedy="deploy it again: the environment's file asks for more than it was deployed from",
            )
        return self.images[kind]


def own_role(cloud: Cloud, base: str, model: str) -> str:
    """The role that the jobs of a model run with which brings code of its own."""
    ssm = cloud.client("ssm")
    name = naming.parameter_name(base, naming.build_role_parameter(model))
    try:
        return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ClientError as error:
        if error_code(error) != "ParameterNotFound":
            raise
        raise BuildStackError(
            f"stack {naming.build_stack_name(base)} has no role for {model!r}, which brings code of its own",
            remedy="deploy it again: the files ask for more than it was deployed from",
        ) from None


def stack_outputs(cloud: Cloud, stack: str) -> dict[str, str] | None:
    """What a stack tells after a deploy, or None if it does not stand."""
    try:
        found = cloud.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}
