"""Find the latest build of a model among an environment's builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice, pairwise
from typing import Any

from tritonstack.base import naming
from tritonstack.operations.aws import Cloud, explain_denied, if_present, pages
from tritonstack.operations.builds.codebuild import build_state, build_variable, latest_builds
from tritonstack.operations.builds.jobs import JobState
from tritonstack.operations.builds.processing import processing_state

LATEST = 100
"""How many builds of each project, and how many Processing jobs, are searched."""


@dataclass(frozen=True)
class LoggedBuild:
    """A build job and how to read its state."""

    model: str
    started: datetime
    state: JobState
    read_state: Callable[[], JobState]


def latest_build(
    cloud: Cloud, base: str, model: str, *, projects: Sequence[str], processing: bool
) -> LoggedBuild | None:
    """Return the latest build of a model, of any target; None if there is none."""
    with explain_denied("codebuild"):
        builds = [_in_codebuild(cloud, project, model) for project in projects]
    if processing:
        with explain_denied("sagemaker"):
            builds.append(_in_processing(cloud, base, model))
    return max((build for build in builds if build), key=lambda build: build.started, default=None)


def _in_codebuild(cloud: Cloud, project: str, model: str) -> LoggedBuild | None:
    client = cloud.client("codebuild")
    # A project that does not exist belongs to a build stack that is not deployed.
    latest = if_present(lambda: latest_builds(client, project)) or []
    builds = [build for build in latest if build_variable(build, "MODEL") == model]
    if not builds:
        return None
    build = max(builds, key=lambda item: item["startTime"])

    def read_state() -> JobState:
        with explain_denied("codebuild"):
            return build_state(client.batch_get_builds(ids=[build["id"]])["builds"][0])

    return LoggedBuild(model, build["startTime"], build_state(build), read_state)


def _in_processing(cloud: Cloud, base: str, model: str) -> LoggedBuild | None:
    client, stack = cloud.client("sagemaker"), naming.build_stack_name(base)

    def describe(name: str) -> Mapping[str, Any]:
        with explain_denied("sagemaker"):
            job: Mapping[str, Any] = client.describe_processing_job(ProcessingJobName=name)
        return job

    def read_state(name: str) -> JobState:
        return processing_state(describe(name))

    latest_first = {"NameContains": f"{stack}-", "SortBy": "CreationTime", "SortOrder": "Descending"}
    listed = pages(client, "list_processing_jobs", "ProcessingJobSummaries", **latest_first)
    names = (job["ProcessingJobName"] for job in listed)
    for name in islice((name for name in names if naming.build_stack_of_job(name) == stack), LATEST):
        job = describe(name)
        if _option(job["AppSpecification"].get("ContainerArguments", []), "--model") == model:
            return LoggedBuild(model, job["CreationTime"], processing_state(job), partial(read_state, name))
    return None


def _option(arguments: Sequence[str], name: str) -> str | None:
    """Return the value that follows an option."""
    return next((value for option, value in pairwise(arguments) if option == name), None)
