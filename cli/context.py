"""What every command needs: the project, the output, and the cloud of an environment."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.accounts import EMBEDDED_ACCOUNT, is_embedded
from catalog.environments import EnvironmentSpec
from catalog.errors import UsageError
from catalog.loading import find_template, load_instance, load_workspace, sample_instance
from catalog.project import Project
from catalog.workspace import Workspace
from cli.output import Output
from local_cloud.process import read_address
from operations.aws import Cloud, CloudAccessError, require_account
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
        return self.cloud_at(spec.account, spec.region, what=f"environment {spec.name!r}")

    def cloud_at(self, account: str, region: str, *, what: str) -> Cloud:
        """An account's cloud in a region; `what` says in errors what is looked for there."""
        if not is_embedded(account):
            cloud = Cloud(account, region, {})
            require_account(cloud)
            return cloud
        address = read_address(self.project.cloud_dir(account))
        which = "" if account == EMBEDDED_ACCOUNT else f" --account {account}"
        if address is None:
            raise CloudAccessError(
                f"{what} lives in the embedded cloud, which is not running",
                remedy=f"start it with `tritonstack up --detach{which}`",
            )
        if address.account_id != account:
            raise CloudAccessError(
                f"the embedded cloud plays account {address.account_id}, and {what} lives in {account}",
                remedy=f"run `tritonstack down{which}`, then `tritonstack up --detach{which}`",
            )
        return Cloud(account, region, address.environment())
