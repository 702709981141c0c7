"""What every workflow needs: the project, a reporter, and the cloud of an environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tritonstack.base import naming
from tritonstack.base.error_kinds import NotDeployedError, UnknownNameError
from tritonstack.base.files import parse_json
from tritonstack.base.paths import Project
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.templates import Instance
from tritonstack.files.loading import ProjectFiles, sample_instance
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.shared.aws import Cloud, if_present, require_account
from tritonstack.operate.shared.local_cloud import cloud_to_read, find_cloud


class Step(Protocol):
    """A step in progress: entering its context starts it, leaving ends it."""

    detail: str
    """The outcome, shown when the step ends."""
    failed: bool
    """True if the step failed while others continue; the error is raised when all have ended."""

    @property
    def interactive(self) -> bool:
        """True if someone sees each update."""

    def update(self, text: str) -> None:
        """Report progress; only the latest text is shown."""

    def log(self, text: str) -> None:
        """Report a line that remains visible."""


class Steps(Protocol):
    """Steps that run in parallel; safe to use from several threads."""

    def step(self, title: str, *, label: str = "") -> AbstractContextManager[Step]:
        """Start a step; `label` prefixes its log lines."""


class Reporter(Protocol):
    """Receives the progress of a workflow."""

    def note(self, text: str) -> None:
        """Report one line."""

    def step(self, title: str) -> AbstractContextManager[Step]:
        """Start a step."""

    def steps(self) -> AbstractContextManager[Steps]:
        """Start a group of parallel steps."""


@dataclass
class SilentStep:
    """A step that reports nothing."""

    detail: str = ""
    failed: bool = False
    interactive: bool = False

    def update(self, text: str) -> None:
        """Ignore progress."""

    def log(self, text: str) -> None:
        """Ignore a line."""


class NullReporter:
    """Ignores every report."""

    def note(self, text: str) -> None:
        """Ignore a line."""

    @contextmanager
    def step(self, title: str, *, label: str = "") -> Iterator[Step]:
        """Start a step that reports nothing."""
        yield SilentStep()

    @contextmanager
    def steps(self) -> Iterator[Steps]:
        """Start parallel steps that report nothing."""
        yield self


def read_instance(cloud: Cloud, spec: EnvironmentSpec) -> Instance | None:
    """Return the deployed instance of an environment name; None if there is none."""
    name = naming.parameter_name(spec.base, naming.INSTANCE_PARAMETER)
    answer = if_present(cloud.client("ssm").get_parameter, Name=name)
    return Instance(**parse_json(answer["Parameter"]["Value"])) if answer else None


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
