"""What every workflow needs: the project, a reporter, and the cloud of an environment."""

from __future__ import annotations

from dataclasses import dataclass, field

from tritonstack.base.error_kinds import NotDeployedError, UnknownNameError
from tritonstack.base.paths import Project
from tritonstack.operations.aws import Cloud, require_account
from tritonstack.operations.instances import read_instance
from tritonstack.project.loading import ProjectFiles, sample_instance
from tritonstack.project.workspace import Workspace
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.workflows.local_cloud import cloud_to_read, find_cloud
from tritonstack.workflows.reporter import NullReporter, Reporter


@dataclass
class Session:
    """A project, and the reporter that workflows report their progress to."""

    project: Project
    reporter: Reporter = field(default_factory=NullReporter)

    def workspace(
        self, environment: str, name: str | None = None, *, files: ProjectFiles | None = None
    ) -> Workspace:
        """Load an environment; with a name, the deployed instance of a template. Commands that load several
        share `files`."""
        files = files or ProjectFiles(self.project)
        if name is None:
            return files.workspace(environment)
        template = files.template(environment)
        spec = files.instance(sample_instance(template.name, name)).spec
        cloud = self.cloud(spec)
        with self.reporter.step(f"reading the instance {name}"):
            instance = read_instance(cloud, spec)
        if instance is None:
            raise NotDeployedError(
                f"no instance {name!r} of {environment} is deployed",
                remedy=f"run `tritonstack deploy {environment} --name {name}` to create it",
            )
        if instance.template != environment:
            raise UnknownNameError(
                f"{name!r} is an instance of {instance.template}, not of {environment}",
                remedy=f"write {instance.template} --name {name}",
            )
        return files.instance(instance)

    def cloud(self, spec: EnvironmentSpec, *, profile: str | None = None) -> Cloud:
        """Return access to the cloud of an environment, with credentials checked.

        They come from an AWS profile, or from the usual chain of boto3.
        """
        subject = f"environment {spec.name!r}"
        return self.cloud_at(spec.account, spec.region, subject=subject, profile=profile)

    def cloud_at(self, account: str, region: str, *, subject: str, profile: str | None = None) -> Cloud:
        """Return access to an account and region; `subject` names the purpose in errors."""
        local = find_cloud(self.project, account, region, subject=subject, profile=profile)
        if local is not None:
            return local
        cloud = Cloud(account, region, {"AWS_PROFILE": profile} if profile else {})
        with self.reporter.step(f"checking access to account {account}"):
            require_account(cloud)
        return cloud

    def cloud_to_read(
        self, spec: EnvironmentSpec, *, beside: EnvironmentSpec, cloud: Cloud, profile: str | None = None
    ) -> Cloud:
        """Return read access to the cloud of an environment; `cloud` is that of the environment `beside`."""
        with self.reporter.step(f"checking access to the artifacts of {spec.name}"):
            return cloud_to_read(self.project, spec, beside=beside, cloud=cloud, profile=profile)
