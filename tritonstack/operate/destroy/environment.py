"""Destroy an environment: endpoints and dashboards first, then the stacks that they depend on.

Stacks are deleted by name through CloudFormation, so an environment without files can be destroyed. A stack's
own template decides what it retains.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.results import Key, Shown
from tritonstack.operate.destroy.deletion import Contents, Retained, contents_of, delete_stacks
from tritonstack.operate.destroy.retained import delete_orphaned, orphaned_of
from tritonstack.operate.jobs.codebuild import build_variable
from tritonstack.operate.shared.aws import Clock, Cloud, is_absent, list_if_present, pages
from tritonstack.operate.shared.stacks import (
    DeletionError,
    StackState,
    is_own,
    list_stacks,
    poll_pauses,
    stack_resources,
    with_planned_tags,
)

# Ended Processing jobs are deleted, too: SageMaker keeps them forever, and no stack owns them. No state is
# kept between runs.


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


OnUpdate = Callable[[str], None]


@dataclass(frozen=True)
class Destroyed:
    """What a destruction deleted and what it retained."""

    stacks: Annotated[tuple[str, ...], Key("deleted_stacks")] = ()
    retained: tuple[Retained, ...] = ()
    log_groups: Annotated[tuple[str, ...], Key("deleted_log_groups")] = ()
    """Log groups that services created."""
    builds: Annotated[tuple[RunningBuild, ...], Key("stopped_builds")] = ()
    """Builds that were running and were stopped."""
    jobs: Annotated[tuple[str, ...], Key("deleted_jobs")] = ()
    """Ended Processing jobs that were deleted."""
    replaced: Annotated[tuple[str, ...], Key("deleted_replaced")] = ()
    """Configurations and models that outlived their stacks and were deleted."""


def _all_of(layers: Iterable[Iterable[str]]) -> list[str]:
    return list(itertools.chain(*layers))


@dataclass(frozen=True)
class DestructionPreview:
    """What a destruction would delete now."""

    layers: Annotated[tuple[tuple[str, ...], ...], Shown(_all_of), Key("stacks")] = ()
    """Stacks, in deletion order."""
    builds: Annotated[tuple[RunningBuild, ...], Key("running_builds")] = ()
    """Running builds."""
    jobs: Annotated[tuple[str, ...], Key("ended_jobs")] = ()
    """Ended Processing jobs. Running jobs would be stopped and deleted too."""
    buckets: tuple[str, ...] = ()
    """Buckets that would be emptied and deleted."""
    repositories: tuple[str, ...] = ()
    """Repositories that would be deleted with their images."""
    keys: tuple[str, ...] = ()
    """Keys that would be scheduled for deletion."""
    retained: tuple[Retained, ...] = ()
    log_groups: tuple[str, ...] = ()
    """Log groups that services created."""
    replaced: tuple[str, ...] = ()
    """Configurations and models that have outlived their stacks."""

    @property
    def stacks(self) -> list[str]:
        """Return all of them."""
        return _all_of(self.layers)


def preview_destruction(cloud: Cloud, base: str) -> DestructionPreview:
    """Return what `destroy_environment` would delete; change nothing."""
    present, others = _stacks(cloud, base)
    contents = [contents_of(cloud, stack) for stack in present]
    return DestructionPreview(
        layers=tuple(tuple(layer) for layer in layers(base, present) if layer),
        builds=tuple(running_builds(cloud, base, stacks=present)),
        jobs=tuple(ended_jobs(cloud, base)),
        buckets=tuple(sorted(bucket for stack_contents in contents for bucket in stack_contents.buckets)),
        repositories=tuple(
            sorted(name for stack_contents in contents for name in stack_contents.repositories)
        ),
        keys=tuple(sorted(key for stack_contents in contents for key in stack_contents.keys)),
        retained=tuple(item for stack_contents in contents for item in stack_contents.retained),
        log_groups=tuple(_service_logs(cloud, base, others=others)),
        replaced=tuple(item.name for item in orphaned_of(cloud, base)),
    )


def destroy_environment(
    cloud: Cloud,
    base: str,
    *,
    on_update: OnUpdate,
    clock: Clock | None = None,
    before_layer: Callable[[], None] = lambda: None,
) -> Destroyed:
    """Delete an environment's stacks and their contents, except what their templates retain.

    `base` is the name prefix. Can be interrupted, repeated, and run concurrently. `before_layer` is called
    before stacks that others depend on are deleted, and may raise an error to keep them. Running builds are
    stopped first, while their stack still exists.
    """
    present, others = _stacks(cloud, base)
    order = [layer for layer in layers(base, present) if layer]
    deleted: list[Contents] = []
    before_layer()
    builds = stop_builds(cloud, base, stacks=present, on_update=on_update, clock=clock or Clock())
    jobs = delete_ended_jobs(cloud, base, on_update=on_update)
    for layer in order:
        before_layer()
        deleted += delete_stacks(cloud, layer, on_update=on_update, clock=clock)
    groups = _delete_service_logs(cloud, base, others=others, on_update=on_update)
    outlived = [item for contents in deleted for item in contents.serving]
    replaced = delete_orphaned(cloud, base, outlived=outlived, on_update=on_update)
    return Destroyed(
        stacks=tuple(itertools.chain(*order)),
        retained=tuple(item for contents in deleted for item in contents.retained),
        log_groups=tuple(groups),
        builds=tuple(builds),
        jobs=tuple(jobs),
        replaced=tuple(replaced),
    )


def _stacks(cloud: Cloud, base: str) -> tuple[list[str], list[str]]:
    """Return the stacks of an environment, and the name prefixes of other deployed environments."""
    stacks = list_stacks(cloud, prefix=f"{base}-")
    bases = {naming.base_of_stack(stack.name) for stack in stacks}
    mine = [stack for stack in stacks if naming.base_of_stack(stack.name) == base]
    present = [stack.name for stack in mine if _is_deletable(with_planned_tags(cloud, stack))]
    return present, [f"{other}-" for other in bases if other not in (None, base)]


def _is_deletable(stack: StackState) -> bool:
    """Return whether a stack is of this project; one in review that plans nothing has no resources."""
    return is_own(stack) or (stack.in_review and not stack.tags)


def layers(base: str, stacks: Collection[str]) -> Iterator[list[str]]:
    """Return the stacks in deletion order; the stacks of one layer are deleted in parallel."""
    below = [naming.network_stack_name(base), naming.foundation_stack_name(base)]
    yield sorted(name for name in stacks if name not in below)
    for name in below:
        yield [name] if name in stacks else []


def service_log_prefixes(base: str) -> Sequence[str]:
    """Return the name prefixes of log groups that services create for an environment."""
    return (
        naming.endpoint_log_group(f"{base}-"),
        naming.component_log_group(f"{base}-"),
        naming.codebuild_log_group(f"{base}-"),
    )


def _delete_service_logs(
    cloud: Cloud, base: str, *, others: Collection[str], on_update: OnUpdate
) -> list[str]:
    """Delete the log groups that services recreated during the deletion."""
    logs, deleted = cloud.client("logs"), []
    for name in _service_logs(cloud, base, others=others):
        try:
            logs.delete_log_group(logGroupName=name)
        except ClientError as error:
            if is_absent(error):
                continue  # deleted by a concurrent run
            raise
        on_update(f"{name}: service-created log group deleted")
        deleted.append(name)
    return deleted


def _service_logs(cloud: Cloud, base: str, *, others: Collection[str]) -> Iterator[str]:
    """Return untagged log groups.

    A tagged one belonged to a stack, whose template decides. `others` are the name prefixes of other deployed
    environments.
    """
    logs = cloud.client("logs")
    for prefix in service_log_prefixes(base):
        foreign = tuple(prefix.removesuffix(f"{base}-") + other for other in others)
        for group in list(pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)):
            name, arn = group["logGroupName"], group["arn"].removesuffix(":*")
            if name.startswith(foreign) or logs.list_tags_for_resource(resourceArn=arn)["tags"]:
                continue
            yield name
