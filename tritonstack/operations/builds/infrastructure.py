"""Read the outputs of an environment's build stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud, if_present


class BuildStackError(TritonstackError):
    """A build job in AWS could not be started, ended with an error, was stopped, or exceeds a quota, or the
    build stack is missing or older than the environment's file. The message names its log; `tritonstack
    quotas` lists the quotas. `--local` builds on this machine.
    """

    code = "TS323"
    title = "Build job failed"


@dataclass(frozen=True)
class BuildInfra:
    """The inputs of a build job."""

    base: str
    bucket: str
    """The artifact bucket."""
    source: str
    """bucket/key of the source archive that the stack was deployed with."""
    images: Mapping[str, str]
    """The build image per machine type, cpu and gpu."""
    endpoint_images: Sequence[str] = ()
    """The repository of serving images."""
    processing_role: str | None = None
    token_secret: str | None = None
    timeout_minutes: int = 120
    concurrent: int | None = None
    """Maximum concurrent builds per project; None means the account's quota."""
    tags: Mapping[str, str] | None = None

    def image(self, hardware: str) -> str:
        """Return the build image for a machine type."""
        kind = "cpu" if hardware == "cpu" else "gpu"
        if kind not in self.images:
            raise BuildStackError(
                f"stack {naming.build_stack_name(self.base)} has no build image for {hardware}",
                remedy="deploy it again: the environment's file has changed since",
            )
        return self.images[kind]


def own_role(cloud: Cloud, base: str, model: str) -> str:
    """Return the build role of a model with custom code."""
    name = naming.parameter_name(base, naming.build_role_parameter(model))
    answer = if_present(cloud.client("ssm").get_parameter, Name=name)
    if answer is None:
        raise BuildStackError(
            f"stack {naming.build_stack_name(base)} has no role for {model!r}, which runs custom code",
            remedy="deploy it again: the files have changed since",
        )
    return str(answer["Parameter"]["Value"])
