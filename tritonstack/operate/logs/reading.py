"""Read lines from CloudWatch Logs: each once, and in order of time.

Lines arrive seconds late, and those of one instance later than those of another. So each poll reads the last
minute again and skips the lines that it has seen by their ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice, pairwise
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import aws_error_code
from tritonstack.base.results import Internal, public
from tritonstack.operate.jobs.codebuild import build_state, build_variable, latest_builds
from tritonstack.operate.jobs.jobs import JobState
from tritonstack.operate.jobs.processing import processing_state
from tritonstack.operate.shared.aws import Cloud, explain_denied, if_present, pages

OVERLAP_MS = 60_000
"""How late a line may arrive, compared with the newest one, and still be read."""
POLL_S = 2.0
"""FilterLogEvents allows five calls per second per account and region."""

_QUIET_POLLS = 2
"""The last lines of a build may arrive after its end."""


@dataclass(frozen=True)
class LogSource:
    """The log streams of an endpoint or a build."""

    name: str
    """The endpoint's name in the environment file, or the model."""
    group: str
    stream_prefix: str = ""
    instance: str = ""
    """The start of an instance's id; empty for all instances."""

    def includes(self, stream: str) -> bool:
        """Return whether a stream belongs to the source. Streams of endpoints: <variant>/<instance>/…"""
        return stream.startswith(self.stream_prefix) and (
            not self.instance or stream.partition("/")[2].startswith(self.instance)
        )


@dataclass(frozen=True)
class LogLine:
    """A line of a log."""

    timestamp_ms: Internal[int]
    source: str
    stream: str
    message: str

    @public
    def time(self) -> str:
        """Return the time in UTC, with milliseconds."""
        moment = datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{self.timestamp_ms % 1000:03d}Z"


class LogCursor:
    """Reads the lines of one source, each once."""

    def __init__(self, cloud: Cloud, source: LogSource, *, since_ms: int, contains: str = "") -> None:
        self.source = source
        self.group_exists = True
        """False if the last read found no log group."""
        self._client = cloud.client("logs")
        self._pattern = {"filterPattern": exact_pattern(contains)} if contains else {}
        self._since = self._newest = since_ms
        self._seen: dict[tuple[str, str], int] = {}

    def new_lines(self) -> list[LogLine]:
        """Return the lines that no earlier call returned, in the order of the service."""
        try:
            with explain_denied("logs"):
                lines = list(self._unseen())
        except ClientError as error:
            if aws_error_code(error) != "ResourceNotFoundException":
                raise
            self.group_exists = False
            return []
        self.group_exists = True
        self._seen = {key: at for key, at in self._seen.items() if at >= self._newest - OVERLAP_MS}
        return lines

    def _unseen(self) -> Iterator[LogLine]:
        source = self.source
        pages = self._client.get_paginator("filter_log_events").paginate(
            logGroupName=source.group,
            startTime=max(self._since, self._newest - OVERLAP_MS),
            **({"logStreamNamePrefix": source.stream_prefix} if source.stream_prefix else {}),
            **self._pattern,
        )
        for page in pages:
            for event in page["events"]:
                key, at = (event["logStreamName"], event["eventId"]), int(event["timestamp"])
                if key in self._seen or not source.includes(event["logStreamName"]):
                    continue
                self._seen[key] = at
                self._newest = max(self._newest, at)
                yield LogLine(at, source.name, event["logStreamName"], str(event["message"]).rstrip("\r\n"))


class MergedLog:
    """The lines of several sources in order of time.

    A line waits for the next poll if no newer line was known at the previous one: other streams may deliver
    an older one meanwhile.
    """

    def __init__(self, cursors: Sequence[LogCursor]) -> None:
        self.cursors = list(cursors)
        self._held: list[LogLine] = []
        self._limit: int | None = None
        """The time of the newest line of earlier polls; None before the first one."""

    @property
    def waiting(self) -> bool:
        """Return whether lines were read and not returned."""
        return bool(self._held)

    def poll(self) -> list[LogLine]:
        """Return the next lines; the first call returns all that exist."""
        self._held += [line for cursor in self.cursors for line in cursor.new_lines()]
        newest = max((line.timestamp_ms for line in self._held), default=self._limit or 0)
        due = self._take(self._limit)
        self._limit = max(newest, self._limit or 0)
        return due

    def rest(self) -> list[LogLine]:
        """Return the waiting lines."""
        return self._take(None)

    def _take(self, limit: int | None) -> list[LogLine]:
        """Return the waiting lines up to a time; all of them without one."""
        self._held.sort(key=lambda line: line.timestamp_ms)
        count = sum(limit is None or line.timestamp_ms <= limit for line in self._held)
        due, self._held = self._held[:count], self._held[count:]
        return due


def follow_log(
    log: MergedLog,
    *,
    on_lines: Callable[[Sequence[LogLine]], None],
    ended: Callable[[], bool],
    pause: Callable[[], None] = lambda: time.sleep(POLL_S),
) -> None:
    """Report lines until the log has ended and polls find no more of them, or until interrupted."""
    quiet = 0
    try:
        while True:
            over = ended()
            due = log.poll()
            on_lines(due)
            quiet = quiet + 1 if over and not due and not log.waiting else 0
            if quiet == _QUIET_POLLS:
                return
            pause()
    finally:
        on_lines(log.rest())


def exact_pattern(text: str) -> str:
    """Return the filter pattern for lines that contain a text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


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
    return next((value for option, value in pairwise(arguments) if option == name), None)
