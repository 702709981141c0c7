"""What every command needs: the project, the output, and the cloud of an environment."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.accounts import EMBEDDED_ACCOUNT, is_embedded
from catalog.environments import EnvironmentSpec
from catalog.errors import TritonstackError
from catalog.project import Project
from cli.output import Output
from local_cloud.process import read_address
from operations.aws import Cloud, cloud_of, require_account


@dataclass
class Context:
    """The options that stand before the command."""

    project: Project
    output: Output

    def cloud(self, spec: EnvironmentSpec) -> Cloud:
        """The cloud that an environment lives in, reachable and with the right credentials."""
        if not is_embedded(spec.account):
            cloud = cloud_of(spec, variables={})
            require_account(cloud)
            return cloud
        address = read_address(self.project.cloud_dir(spec.account))
        which = "" if spec.account == EMBEDDED_ACCOUNT else f" --account {spec.account}"
        if address is None:
            raise TritonstackError(
                f"environment {spec.name!r} lives in the embedded cloud, which is not running",
                remedy=f"start it with `tritonstack up --detach{which}`",
            )
        if address.account_id != spec.account:
            raise TritonstackError(
                f"the embedded cloud plays account {address.account_id}, and environment {spec.name!r} lives "
                f"in {spec.account}",
                remedy=f"run `tritonstack down{which}`, then `tritonstack up --detach{which}`",
            )
        return cloud_of(spec, variables=address.environment())
