"""Destroy an environment: endpoints and dashboards first, then the stacks that they depend on.

Stacks are deleted by name through CloudFormation, so an environment without files can be destroyed. A stack's
own template decides what it retains.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.results import Key, Shown
from tritonstack.facts.bootstrap import Bootstrap
from tritonstack.operate.destroy.deletion import (
    Contents,
    Retained,
    contents_of,
    delete_stacks,
    empty_bucket,
)
from tritonstack.operate.destroy.retained import delete_orphaned, orphaned_of
from tritonstack.operate.destroy.running_builds import (
    RunningBuild,
    delete_ended_jobs,
    ended_jobs,
    running_builds,
    stop_builds,
)
from tritonstack.operate.shared.aws import Clock, Cloud, is_absent, pages
from tritonstack.operate.shared.stacks import (
    StackState,
    describe_stack,
    is_own,
    list_stacks,
    with_planned_tags,
)

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


def remove_bootstrap(cloud: Cloud, bootstrap: Bootstrap) -> None:
    """Undo `cdk bootstrap`."""
    if describe_stack(cloud, bootstrap.stack) is None:
        return
    resources = cloud.client("cloudformation").describe_stack_resources(StackName=bootstrap.stack)
    buckets = [
        resource["PhysicalResourceId"]
        for resource in resources["StackResources"]
        if resource["ResourceType"] == "AWS::S3::Bucket"
    ]
    delete_stacks(cloud, [bootstrap.stack], on_update=lambda _: None, empty=False)
    for bucket in buckets:  # the bootstrap template retains its bucket
        empty_bucket(cloud, bucket)
        cloud.client("s3").delete_bucket(Bucket=bucket)


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
