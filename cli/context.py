"""What every command needs: the project, the output, and the cloud of an environment."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.accounts import EMBEDDED_ACCOUNT, is_embedded
from catalog.environments import EnvironmentSpec
from catalog.errors import TritonstackError, UsageError
from catalog.loading import find_template, load_instance, load_workspace, sample_instance
from catalog.project import Project
from catalog.workspace import Workspace
from cli.output import Output
from local_cloud.process import read_address
from operations.aws import Cloud, cloud_of, require_account
from operations.instances import read_instance


@dataclass
class Context:
    """The options that stand before the command."""

    project: Project
    output: Output

    def workspace(self, environment: str, name: str | None = None) -> Workspace:
        """An environment and all that it refers to; with a name, the deployed instance of a template."""
        if name is None:
            return load_workspace(self.project, environment)
        template = find_template(self.project, environment)
        spec = load_instance(self.project, sample_instance(template.name, name)).spec
        instance = read_instance(self.cloud(spec), spec)
        if instance is None:
            raise UsageError(
                f"no instance {name!r} of {environment} is deployed",
                remedy=f"`tritonstack deploy {environment} --name {name}` makes one",
            )
        if instance.template != environment:
            raise UsageError(
                f"{name!r} is an instance of {instance.template}, not of {environment}",
                remedy=f"write {instance.template} --name {name}",
            )
        return load_instance(self.project, instance)

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
