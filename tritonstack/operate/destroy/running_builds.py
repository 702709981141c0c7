"""Stop running builds before a destruction: they cost money and publish to buckets that are being emptied.

Ended Processing jobs are deleted, too: SageMaker keeps them forever, and no stack owns them. No state is kept
between runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.operate.jobs.codebuild import build_variable
from tritonstack.operate.shared.aws import Clock, Cloud, list_if_present, pages
from tritonstack.operate.shared.stacks import DeletionError, poll_pauses, stack_resources

LONGEST_END_S = 15 * 60.0
"""Stopped builds end within minutes; SageMaker gives a process two minutes."""
_AT_A_TIME = 100
_UNDER_WAY = ("InProgress", "Stopping")
_ENDED = ("Completed", "Failed", "Stopped")
"""The states in which SageMaker deletes a job."""


@dataclass(frozen=True, order=True)
class RunningBuild:
    """A running build."""

    service: str
    """CodeBuild or SageMaker Processing."""
    id: str
    builds: str = ""
    """The model, if the service reports it."""

    @property
    def description(self) -> str:
        """Return the build in one line."""
        return f"{self.id} ({self.service}{f', builds {self.builds}' if self.builds else ''})"


def running_builds(cloud: Cloud, base: str, *, stacks: Collection[str]) -> list[RunningBuild]:
    """Return the running builds of an environment, by the names of its stacks."""
    return sorted(build for service in _build_services(cloud, base, stacks) for build in service.running())


def stop_builds(
    cloud: Cloud, base: str, *, stacks: Collection[str], on_update: Callable[[str], None], clock: Clock
) -> list[RunningBuild]:
    """Stop all builds of an environment and wait for them; return those that ran."""
    stopped: list[RunningBuild] = []
    for service in _build_services(cloud, base, stacks):
        # A new build may start while others are stopping.
        while builds := sorted(service.running()):
            for build in builds:
                on_update(f"{build.description}: in progress; stopping")
                service.stop(build.id)
            _wait(service, builds, clock)
            for build in builds:
                on_update(f"{build.id}: ended")
            stopped += builds
    return stopped


def _wait(service: _CodeBuild | _Processing, builds: Sequence[RunningBuild], clock: Clock) -> None:
    remaining, until = {build.id for build in builds}, clock.now() + LONGEST_END_S
    for pause in poll_pauses():
        remaining = service.still(remaining)
        if not remaining:
            return
        if clock.now() >= until:
            raise DeletionError(
                f"still running {LONGEST_END_S / 60:.0f} minutes after the stop request: "
                + ", ".join(sorted(remaining)),
                remedy="nothing was deleted; check the builds in the AWS console, then rerun the command",
            )
        clock.sleep(pause)


def _build_services(cloud: Cloud, base: str, stacks: Collection[str]) -> list[_CodeBuild | _Processing]:
    return [_CodeBuild(cloud, _projects(cloud, base, stacks)), _Processing(cloud, base)]


def _projects(cloud: Cloud, base: str, stacks: Collection[str]) -> list[str]:
    """Use CloudFormation's list: another environment's names may share the prefix."""
    stack = naming.build_stack_name(base)
    if stack not in stacks:
        return []
    return sorted(
        resource["PhysicalResourceId"]
        for resource in stack_resources(cloud, stack)
        if resource["ResourceType"] == "AWS::CodeBuild::Project"
        and resource.get("PhysicalResourceId")
        and resource["ResourceStatus"] != "DELETE_COMPLETE"
    )


class _CodeBuild:
    def __init__(self, cloud: Cloud, projects: Sequence[str]) -> None:
        self._client = cloud.client("codebuild")
        self._projects = projects

    def running(self) -> Iterator[RunningBuild]:
        for project in self._projects:
            # A project that does not exist was deleted by a concurrent run.
            ids = list_if_present(self._client, "list_builds_for_project", "ids", projectName=project)
            for build in self._look(ids):
                if not build["buildComplete"]:
                    yield RunningBuild("CodeBuild", build["id"], build_variable(build, "MODEL") or "")

    def stop(self, build_id: str) -> None:
        self._client.stop_build(id=build_id)

    def still(self, ids: Collection[str]) -> set[str]:
        return {build["id"] for build in self._look(sorted(ids)) if not build["buildComplete"]}

    def _look(self, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        for first in range(0, len(ids), _AT_A_TIME):
            yield from self._client.batch_get_builds(ids=list(ids[first : first + _AT_A_TIME]))["builds"]


class _Processing:
    def __init__(self, cloud: Cloud, base: str) -> None:
        self._cloud = cloud
        self._base = base

    def running(self) -> Iterator[RunningBuild]:
        for name in sorted(self._under_way()):
            yield RunningBuild("SageMaker Processing", name)

    def stop(self, build_id: str) -> None:
        try:
            self._cloud.client("sagemaker").stop_processing_job(ProcessingJobName=build_id)
        except ClientError:
            # Rejected because the build is already stopping or has ended; other errors are real.
            if build_id in _jobs_that_are(self._cloud, self._base, "InProgress"):
                raise

    def still(self, ids: Collection[str]) -> set[str]:
        return set(ids) & self._under_way()

    def _under_way(self) -> set[str]:
        return _jobs_that_are(self._cloud, self._base, *_UNDER_WAY)


def _jobs_that_are(cloud: Cloud, base: str, *statuses: str) -> set[str]:
    """Return the names of an environment's jobs in some states, without other environments' jobs."""
    stack = naming.build_stack_name(base)
    client, listing = cloud.client("sagemaker"), ("list_processing_jobs", "ProcessingJobSummaries")
    return {
        job["ProcessingJobName"]
        for status in statuses
        for job in pages(client, *listing, NameContains=f"{stack}-", StatusEquals=status)
        if naming.build_stack_of_job(job["ProcessingJobName"]) == stack
    }


def ended_jobs(cloud: Cloud, base: str) -> list[str]:
    """Return the names of ended jobs, sorted."""
    return sorted(_jobs_that_are(cloud, base, *_ENDED))


def delete_ended_jobs(cloud: Cloud, base: str, *, on_update: Callable[[str], None]) -> list[str]:
    """Delete jobs; return those that existed."""
    client, deleted = cloud.client("sagemaker"), []
    for name in ended_jobs(cloud, base):
        try:
            client.delete_processing_job(ProcessingJobName=name)
        except ClientError:
            if name in ended_jobs(cloud, base):
                raise
            continue  # deleted by a concurrent run
        on_update(f"{name}: ended Processing job deleted")
        deleted.append(name)
    return deleted
