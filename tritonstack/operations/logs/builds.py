"""Find the latest build of a model among an environment's builds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice, pairwise
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import aws_error_code
from tritonstack.operations.aws import Cloud, explain_denied
from tritonstack.operations.builds.codebuild import build_state, build_variable
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
    try:
        listed = client.list_builds_for_project(projectName=project, sortOrder="DESCENDING")
    except ClientError as error:
        if aws_error_code(error) == "ResourceNotFoundException":
            return None  # the build stack is not deployed
        raise
    if not listed["ids"]:
        return None

    def read(ids: Sequence[str]) -> list[dict[str, Any]]:
        with explain_denied("codebuild"):
            return list(client.batch_get_builds(ids=ids)["builds"])

    builds = [build for build in read(listed["ids"][:LATEST]) if build_variable(build, "MODEL") == model]
    if not builds:
        return None
    latest = max(builds, key=lambda build: build["startTime"])
    return LoggedBuild(
        model, latest["startTime"], build_state(latest), lambda: build_state(read([latest["id"]])[0])
    )


def _in_processing(cloud: Cloud, base: str, model: str) -> LoggedBuild | None:
    for name in islice(_processing_jobs(cloud, base), LATEST):
        job = _describe(cloud, name)
        if _option(job["AppSpecification"].get("ContainerArguments", []), "--model") == model:
            return LoggedBuild(
                model, job["CreationTime"], processing_state(job), partial(_processing_state, cloud, name)
            )
    return None


def _processing_state(cloud: Cloud, name: str) -> JobState:
    return processing_state(_describe(cloud, name))


def _describe(cloud: Cloud, name: str) -> dict[str, Any]:
    with explain_denied("sagemaker"):
        job: dict[str, Any] = cloud.client("sagemaker").describe_processing_job(ProcessingJobName=name)
    return job


def _processing_jobs(cloud: Cloud, base: str) -> Iterator[str]:
    """Yield the names of the environment's build jobs, latest first."""
    stack = naming.build_stack_name(base)
    pages = (
        cloud.client("sagemaker")
        .get_paginator("list_processing_jobs")
        .paginate(NameContains=f"{stack}-", SortBy="CreationTime", SortOrder="Descending")
    )
    for page in pages:
        for job in page["ProcessingJobSummaries"]:
            if naming.build_stack_of_job(job["ProcessingJobName"]) == stack:
                yield job["ProcessingJobName"]


def _option(arguments: Sequence[str], name: str) -> str | None:
    """Return the value that follows an option."""
    return next((value for option, value in pairwise(arguments) if option == name), None)
