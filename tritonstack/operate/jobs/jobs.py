"""Run builds as jobs in an environment's account; jobs continue without their caller.

A job's name is derived from all its inputs. The same request finds the job's record in the artifact bucket or
attaches to the running job; otherwise a new job starts.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError, aws_error_code
from tritonstack.base.files import parse_json, short_digest
from tritonstack.base.naming import artifact_prefix, build_record_key
from tritonstack.files.project.build_machines import CodeBuildMachine, ProcessingMachine
from tritonstack.files.records.manifests import MANIFEST_NAME, Manifest
from tritonstack.operate.shared.artifacts import published_manifest, read_object
from tritonstack.operate.shared.aws import Clock, Cloud, if_present, is_absent

# Until then, services reject the role with the same error as a role that does not trust them.


KNOWN_WITHIN_S = 60.0
"""After this time, the role is wrong, not new."""
_PAUSE_S = 5.0
_REJECTIONS = {
    "ValidationException": re.compile("could not assume role", re.IGNORECASE),
    "InvalidInputException": re.compile("not authorized to perform:? sts:AssumeRole", re.IGNORECASE),
}
"""Error messages of SageMaker and CodeBuild, by error code."""

Answer = TypeVar("Answer")


def once_role_is_known(call: Callable[[], Answer], clock: Clock) -> Answer:
    """Return a call's result; retry while the service cannot assume the role yet."""
    until = clock.now() + KNOWN_WITHIN_S
    while True:
        try:
            return call()
        except ClientError as error:
            if not _is_about_role(error) or clock.now() >= until:
                raise
        clock.sleep(_PAUSE_S)


def _is_about_role(error: ClientError) -> bool:
    patterns = _REJECTIONS.get(aws_error_code(error))
    return patterns is not None and patterns.search(str(error)) is not None


class BuildStackError(TritonstackError):
    """A build job in AWS could not be started, ended with an error, was stopped, or exceeds a quota, or the
    build stack is missing or older than the environment's file. The message names its log; `tritonstack
    quotas` lists the quotas. `--local` builds on this machine.
    """

    code = "TS323"
    title = "Build job failed"


@dataclass(frozen=True)
class BuildInfra:
    """The inputs of a build job."""

    base: str
    bucket: str
    """The artifact bucket."""
    source: str
    """bucket/key of the source archive that the stack was deployed with."""
    images: Mapping[str, str]
    """The build image per machine type, cpu and gpu."""
    endpoint_images: Sequence[str] = ()
    """The repository of serving images."""
    processing_role: str | None = None
    token_secret: str | None = None
    timeout_minutes: int = 120
    concurrent: int | None = None
    """Maximum concurrent builds per project; None means the account's quota."""
    tags: Mapping[str, str] | None = None

    def image(self, hardware: str) -> str:
        """Return the build image for a machine type."""
        kind = "cpu" if hardware == "cpu" else "gpu"
        if kind not in self.images:
            raise BuildStackError(
                f"stack {naming.build_stack_name(self.base)} has no build image for {hardware}",
                remedy="deploy it again: the environment's file has changed since",
            )
        return self.images[kind]


def own_role(cloud: Cloud, base: str, model: str) -> str:
    """Return the build role of a model with custom code."""
    name = naming.parameter_name(base, naming.build_role_parameter(model))
    answer = if_present(cloud.client("ssm").get_parameter, Name=name)
    if answer is None:
        raise BuildStackError(
            f"stack {naming.build_stack_name(base)} has no role for {model!r}, which runs custom code",
            remedy="deploy it again: the files have changed since",
        )
    return str(answer["Parameter"]["Value"])


JobStatus = Literal["running", "succeeded", "failed", "stopped"]


class BuildJobError(TritonstackError):
    """A job produced no artifact."""

    code = BuildStackError.code


class NoRoomError(BuildJobError):
    """The concurrency limit is reached; retry when a job has ended."""


@dataclass(frozen=True)
class JobOrder:
    """A model to build for a machine type."""

    model: str
    targets: tuple[str, ...]
    spec_hash: str
    build_machine: CodeBuildMachine | ProcessingMachine
    role: str | None = None
    """The model's own role, if it has custom code."""
    needs_token: bool = False
    """Whether it downloads from Hugging Face."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """The result of `precision: auto` in earlier builds of the same files, by model."""

    def name(self, infra: BuildInfra) -> str:
        """Return the job's name; equal builds have equal names."""
        facts = [
            self.model,
            self.targets,
            self.spec_hash,
            infra.source,
            infra.image(self.build_machine.hardware),
            *([sorted(self.choices.items())] if self.choices else []),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class JobState:
    """One attempt at a job."""

    id: str
    status: JobStatus
    phase: str
    reason: str = ""
    log_group: str = ""
    log_stream: str = ""
    """Its log stream, or a prefix of the stream's name."""
    began_ms: int = 0
    """Older streams belong to a deleted job with the same name."""


class JobService(Protocol):
    """A job service: CodeBuild or SageMaker Processing."""

    def attempts(self, job: str) -> list[JobState]:
        """Return all known attempts at the job, latest first."""

    def next_number(self, attempts: Sequence[JobState]) -> int:
        """Return the number of the next attempt."""

    def start(self, order: JobOrder, job: str, attempt: int) -> JobState:
        """Start the attempt with that number, or attach to it if another caller started it.

        Raise NoRoomError at the concurrency limit.
        """

    def poll(self, attempt_id: str) -> JobState:
        """Return an attempt's status."""

    def stop(self, attempt_id: str) -> None:
        """Stop an attempt."""


def start_or_attach(service: JobService, order: JobOrder, job: str) -> tuple[JobState, bool]:
    """Return the running attempt, and whether it was already running."""
    return attach_or(lambda number: service.start(order, job, number), service, job)


def attach_or(start: Callable[[int], JobState], service: JobService, job: str) -> tuple[JobState, bool]:
    """Return the running attempt, or start one with the next number; and whether it was already running."""
    attempts = service.attempts(job)
    running = next((attempt for attempt in attempts if attempt.status == "running"), None)
    if running is not None:
        return running, True
    return start(service.next_number(attempts)), False


class LogTail:
    """Read one attempt's log lines, each once."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._tokens: dict[str, str] = {}

    def new_lines(self, state: JobState) -> list[str]:
        """Return the new lines; none if there is no log yet."""
        if not state.log_group or not state.log_stream:
            return []
        try:
            return [line for stream in self._streams(state) for line in self._read(state.log_group, stream)]
        except ClientError as error:
            if is_absent(error):
                return []
            raise

    def _streams(self, state: JobState) -> list[str]:
        if not state.log_stream.endswith("/"):
            return [state.log_stream]
        page = self._client.describe_log_streams(
            logGroupName=state.log_group, logStreamNamePrefix=state.log_stream
        )
        return [
            stream["logStreamName"]
            for stream in page["logStreams"]
            if stream["creationTime"] >= state.began_ms
        ]

    def _read(self, group: str, stream: str) -> Iterator[str]:
        while True:
            token = self._tokens.get(stream)
            page = self._client.get_log_events(
                logGroupName=group,
                logStreamName=stream,
                startFromHead=True,
                **({"nextToken": token} if token else {}),
            )
            self._tokens[stream] = page["nextForwardToken"]
            yield from (str(event["message"]).rstrip("\n") for event in page["events"])
            if page["nextForwardToken"] == token:  # a page may be empty before the end
                return


@dataclass(frozen=True)
class JobUpdate:
    """New status and log lines of a job."""

    state: JobState
    lines: Sequence[str] = ()


def follow(
    service: JobService,
    started: JobState,
    tail: LogTail,
    *,
    on_update: Callable[[JobUpdate], None],
    cancelled: threading.Event,
    poll_s: float,
) -> JobState:
    """Wait until a job ends or the caller stops following it; the job then continues."""
    state = started
    while state.status == "running" and not cancelled.is_set():
        on_update(JobUpdate(state, tail.new_lines(state)))
        cancelled.wait(poll_s)
        state = service.poll(started.id)
    if not cancelled.is_set():
        on_update(JobUpdate(state, tail.new_lines(state)))
    return state


def parse_event(line: str) -> dict[str, Any] | None:
    """Parse a progress line of a job's log; None for other lines."""
    if not line.startswith("{"):
        return None
    try:
        event = parse_json(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def event_text(event: Mapping[str, Any]) -> str:
    """Return the event of a build as text; empty if it is for programs only."""
    if event["event"] == "failed":
        remedy = f"\n  help: {event['remedy']}" if event.get("remedy") else ""
        return f"failed: {event['message']}{remedy}"
    if event["event"] != "step":
        return ""
    step, detail = event["step"], event["detail"]
    if event["state"] in ("started", "running"):
        return ": ".join(filter(None, (step, detail)))
    mark = "failed: " if event["state"] == "failed" else ""
    return f"{step}: {mark}{detail} ({event['seconds']:.1f} s)"


def find_result(cloud: Cloud, infra: BuildInfra, order: JobOrder, job: str) -> Manifest | None:
    """Return the job's artifact from its record; None while the job runs."""
    s3 = cloud.client("s3")
    record = read_object(s3, infra.bucket, build_record_key(order.model, job))
    if record is None:
        return None
    digest = parse_json(record)["digest"]
    manifest = published_manifest(s3, bucket=infra.bucket, model=order.model, digest=digest)
    if manifest is None:
        return None  # deleted since: build it again
    # The job's custom code may have written this record, so check that model and digest match.
    request = (order.model, digest, order.spec_hash)
    if (
        manifest.model,
        manifest.digest,
        manifest.spec_hash,
    ) != request or manifest.target not in order.targets:
        raise BuildJobError(
            (
                f"s3://{infra.bucket}/{artifact_prefix(order.model, digest)}/{MANIFEST_NAME} does not match "
                f"the request: {manifest.model} "
                f"{short_digest(manifest.digest)} for {manifest.target}, "
                f"from {short_digest(manifest.spec_hash)}"
            ),
            remedy=f"delete s3://{infra.bucket}/{build_record_key(order.model, job)} and rerun",
        )
    if manifest.examples_sha256 is None:
        return None  # an earlier version wrote no examples: build it again
    return manifest
