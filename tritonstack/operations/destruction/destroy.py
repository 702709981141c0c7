"""Taking an environment down to nothing: endpoints and dashboards first, then what they stood on.

CloudFormation is asked directly, by name: an environment can be destroyed whose files no longer describe
all that was deployed from them, or are gone. What a stack keeps, it keeps by its own template.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.operations.aws import Cloud
from tritonstack.operations.buckets import empty_bucket
from tritonstack.operations.clock import Clock
from tritonstack.operations.destruction.deletion import Retained, contents_of, delete_stacks
from tritonstack.operations.destruction.processing_jobs import delete_ended_jobs, ended_jobs
from tritonstack.operations.destruction.running_builds import RunningBuild, running_builds, stop_builds
from tritonstack.operations.stacks import describe_stack, list_stacks
from tritonstack.reference.bootstrap import Bootstrap

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Destroyed:
    """What a destruction did away with, and what it left because that was asked for."""

    stacks: tuple[str, ...] = ()
    retained: tuple[Retained, ...] = ()
    log_groups: tuple[str, ...] = ()
    """Those that services had made by themselves."""
    builds: tuple[RunningBuild, ...] = ()
    """Those that were under way, and were ended."""
    jobs: tuple[str, ...] = ()
    """Processing jobs that had ended, by then at the latest, and were deleted."""


@dataclass(frozen=True)
class Foreseen:
    """What a destruction would do away with, as things stand."""

    layers: tuple[tuple[str, ...], ...] = ()
    """Stacks, in the order in which they would go."""
    builds: tuple[RunningBuild, ...] = ()
    """Those that are under way."""
    jobs: tuple[str, ...] = ()
    """Processing jobs that have ended. One that is under way would be deleted as well."""
    buckets: tuple[str, ...] = ()
    """Those that would be emptied, and go."""
    repositories: tuple[str, ...] = ()
    """Those that would go with the images in them."""
    keys: tuple[str, ...] = ()
    """Those that would wait for their deletion."""
    retained: tuple[Retained, ...] = ()
    log_groups: tuple[str, ...] = ()
    """Those that services have made by themselves."""

    @property
    def stacks(self) -> list[str]:
        """All of them."""
        return list(itertools.chain(*self.layers))


def foresee(cloud: Cloud, base: str) -> Foreseen:
    """What `destroy_environment` would begin with; changes nothing."""
    present, others = _stacks(cloud, base)
    contents = [contents_of(cloud, stack) for stack in present]
    return Foreseen(
        layers=tuple(tuple(layer) for layer in layers(base, present) if layer),
        builds=tuple(running_builds(cloud, base, stacks=present)),
        jobs=tuple(ended_jobs(cloud, base)),
        buckets=tuple(sorted(bucket for held in contents for bucket in held.buckets)),
        repositories=tuple(sorted(name for held in contents for name in held.repositories)),
        keys=tuple(sorted(key for held in contents for key in held.keys)),
        retained=tuple(item for held in contents for item in held.retained),
        log_groups=tuple(_service_logs(cloud, base, others=others)),
    )


def destroy_environment(
    cloud: Cloud,
    base: str,
    *,
    tell: Tell,
    clock: Clock | None = None,
    before_layer: Callable[[], None] = lambda: None,
) -> Destroyed:
    """Delete an environment's stacks and all they hold, but what their templates say is to be retained.

    `base` is what all its names begin with. Safe to stop at any moment, to run again and to run side by side.
    `before_layer` is called before stacks are deleted that others stood on, and may raise to keep them.
    Builds end before anything goes; their jobs go first, while a stack still tells where to look for them.
    """
    present, others = _stacks(cloud, base)
    order = [layer for layer in layers(base, present) if layer]
    retained: list[Retained] = []
    before_layer()
    builds = stop_builds(cloud, base, stacks=present, tell=tell, clock=clock or Clock())
    jobs = delete_ended_jobs(cloud, base, tell=tell)
    for layer in order:
        before_layer()
        retained += delete_stacks(cloud, layer, tell=tell, clock=clock)
    groups = _delete_service_logs(cloud, base, others=others, tell=tell)
    return Destroyed(
        stacks=tuple(itertools.chain(*order)),
        retained=tuple(retained),
        log_groups=tuple(groups),
        builds=tuple(builds),
        jobs=tuple(jobs),
    )


def _stacks(cloud: Cloud, base: str) -> tuple[list[str], list[str]]:
    """The stacks of an environment, and what the names of others begin with whose stacks stand."""
    stacks = list_stacks(cloud, prefix=f"{base}-")
    bases = {naming.base_of_stack(stack.name) for stack in stacks}
    present = [stack.name for stack in stacks if naming.base_of_stack(stack.name) == base]
    return present, [f"{other}-" for other in bases if other not in (None, base)]


def layers(base: str, stacks: Collection[str]) -> Iterator[list[str]]:
    """The stacks of an environment in the order in which they can go; those of one layer go side by side."""
    below = [naming.network_stack_name(base), naming.foundation_stack_name(base)]
    yield sorted(name for name in stacks if name not in below)
    for name in below:
        yield [name] if name in stacks else []


def remove_bootstrap(cloud: Cloud, bootstrap: Bootstrap) -> None:
    """Undo `cdk bootstrap`, for accounts that are to be left as they were found."""
    if describe_stack(cloud, bootstrap.stack) is None:
        return
    resources = cloud.client("cloudformation").describe_stack_resources(StackName=bootstrap.stack)
    buckets = [
        resource["PhysicalResourceId"]
        for resource in resources["StackResources"]
        if resource["ResourceType"] == "AWS::S3::Bucket"
    ]
    delete_stacks(cloud, [bootstrap.stack], tell=lambda _: None, empty=False)
    for bucket in buckets:  # the bootstrap template keeps its bucket when the stack goes
        empty_bucket(cloud, bucket)
        cloud.client("s3").delete_bucket(Bucket=bucket)


def service_log_prefixes(base: str) -> Sequence[str]:
    """What the names of log groups begin with that services make for an environment by themselves."""
    return (
        naming.endpoint_log_group(f"{base}-"),
        naming.component_log_group(f"{base}-"),
        naming.codebuild_log_group(f"{base}-"),
    )


def _delete_service_logs(cloud: Cloud, base: str, *, others: Collection[str], tell: Tell) -> list[str]:
    """Delete the log groups that services have made anew while the stacks' own went."""
    logs, deleted = cloud.client("logs"), []
    for name in _service_logs(cloud, base, others=others):
        try:
            logs.delete_log_group(logGroupName=name)
        except logs.exceptions.ResourceNotFoundException:
            continue  # another run was faster
        tell(f"{name}: log group deleted; a service had made it by itself")
        deleted.append(name)
    return deleted


def _service_logs(cloud: Cloud, base: str, *, others: Collection[str]) -> Iterator[str]:
    """Log groups that bear no tags.

    One with tags was a stack's, and whoever deployed that has said what is to become of it. `others` are what
    the names of other environments begin with whose stacks stand.
    """
    logs = cloud.client("logs")
    for prefix in service_log_prefixes(base):
        foreign = tuple(prefix.removesuffix(f"{base}-") + other for other in others)
        pages = logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix)
        for group in [group for page in pages for group in page["logGroups"]]:
            name, arn = group["logGroupName"], group["arn"].removesuffix(":*")
            if name.startswith(foreign) or logs.list_tags_for_resource(resourceArn=arn)["tags"]:
                continue
            yield name
