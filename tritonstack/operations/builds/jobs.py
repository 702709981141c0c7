"""Builds as jobs in an environment's account: started once, followed by whoever asks, and outliving them.

A job is named by all that decides what comes of it. Who asks for the same again finds its record in the
artifact bucket, or attaches to the one that runs; only if there is neither is a job started.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import artifact_prefix, build_record_key
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.operations.builds.infrastructure import BuildGround
from tritonstack.project.build_machines import CodeBuildMachine, ProcessingMachine
from tritonstack.records.manifests import MANIFEST_NAME, Manifest, parse_manifest

JobStatus = Literal["running", "succeeded", "failed", "stopped"]


class BuildJobError(TritonstackError):
    """A job did not give an artifact."""


class NoRoomError(BuildJobError):
    """As many jobs run as may at once: when one of them has ended, there is room for another."""


@dataclass(frozen=True)
class JobOrder:
    """A model that is to be built for a kind of machine."""

    model: str
    targets: tuple[str, ...]
    spec_hash: str
    venue: CodeBuildMachine | ProcessingMachine
    role: str | None = None
    """The role of this model's own, if it brings code along."""
    needs_token: bool = False
    """Whether it downloads from Hugging Face."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """What `precision: auto` chose in earlier builds of the same files, by model."""

    def name(self, ground: BuildGround) -> str:
        """The same for the same build, whoever asks."""
        facts = [
            self.model,
            self.targets,
            self.spec_hash,
            ground.source,
            ground.image(self.venue.hardware),
            *([sorted(self.choices.items())] if self.choices else []),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class JobState:
    """One attempt at a job, as its service describes it."""

    id: str
    status: JobStatus
    phase: str
    reason: str = ""
    log_group: str = ""
    log_stream: str = ""
    """Its stream, or what the name of its stream begins with."""
    began_ms: int = 0
    """Streams from before are of a job that bore its name, and was deleted."""


class JobService(Protocol):
    """CodeBuild, or SageMaker Processing."""

    def attempts(self, job: str) -> list[JobState]:
        """Every attempt at a job that the service still knows, the latest first."""

    def next_number(self, attempts: Sequence[JobState]) -> int:
        """The number of the attempt that comes after these."""

    def start(self, order: JobOrder, job: str, attempt: int) -> JobState:
        """Begin the attempt of that number, or attach to it where somebody was faster.

        NoRoomError where as many run already as may at once.
        """

    def look(self, attempt_id: str) -> JobState:
        """What has become of an attempt."""

    def stop(self, attempt_id: str) -> None:
        """End an attempt."""


def start_or_attach(service: JobService, order: JobOrder, job: str) -> tuple[JobState, bool]:
    """The attempt that runs, and whether it did so before."""
    attempts = service.attempts(job)
    running = next((attempt for attempt in attempts if attempt.status == "running"), None)
    if running is not None:
        return running, True
    return service.start(order, job, service.next_number(attempts)), False


class LogTail:
    """The lines of one attempt's log, each once."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._tokens: dict[str, str] = {}

    def new_lines(self, state: JobState) -> list[str]:
        """What was written since the last time; nothing where there is no log yet."""
        if not state.log_group or not state.log_stream:
            return []
        try:
            return [line for stream in self._streams(state) for line in self._read(state.log_group, stream)]
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                return []
            raise

    def _streams(self, state: JobState) -> list[str]:
        if not state.log_stream.endswith("/"):
            return [state.log_stream]
        found = self._client.describe_log_streams(
            logGroupName=state.log_group, logStreamNamePrefix=state.log_stream
        )
        return [
            stream["logStreamName"]
            for stream in found["logStreams"]
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
            if page["nextForwardToken"] == token or not page["events"]:
                return


@dataclass(frozen=True)
class JobNews:
    """What is new of a job: its state, and lines of its log."""

    state: JobState
    lines: Sequence[str] = ()


def follow(
    service: JobService,
    started: JobState,
    tail: LogTail,
    *,
    on_news: Callable[[JobNews], None],
    enough: threading.Event,
    poll_s: float,
) -> JobState:
    """Wait until a job has ended, or until somebody has seen enough: then it goes on without us."""
    state = started
    while state.status == "running" and not enough.is_set():
        on_news(JobNews(state, tail.new_lines(state)))
        enough.wait(poll_s)
        state = service.look(started.id)
    if not enough.is_set():
        on_news(JobNews(state, tail.new_lines(state)))
    return state


def parse_event(line: str) -> dict[str, Any] | None:
    """What a job tells in a line of its log; None for what others write there."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def find_result(cloud: Cloud, ground: BuildGround, order: JobOrder, job: str) -> Manifest | None:
    """The artifact that a job has made, by the record that it left; None if it has not ended yet."""
    s3 = cloud.client("s3")
    record = _get(s3, ground.bucket, build_record_key(order.model, job))
    if record is None:
        return None
    digest = json.loads(record)["digest"]
    key = f"{artifact_prefix(order.model, digest)}/{MANIFEST_NAME}"
    body = _get(s3, ground.bucket, key)
    if body is None:
        return None  # deleted since: it is built again
    manifest = parse_manifest(body, origin=f"s3://{ground.bucket}/{key}")
    # Its own code may have written what lies there: it tells of this model and these bytes, or counts not.
    asked = (order.model, digest, order.spec_hash)
    if (manifest.model, manifest.digest, manifest.spec_hash) != asked or manifest.target not in order.targets:
        raise BuildJobError(
            f"s3://{ground.bucket}/{key} is not what was to be built: {manifest.model} "
            f"{manifest.digest[:12]} for {manifest.target}, from {manifest.spec_hash[:12]}",
            remedy=f"delete s3://{ground.bucket}/{build_record_key(order.model, job)}, and run the same "
            "command again",
        )
    if manifest.examples_sha256 is None:
        return None  # an earlier version's, which wrote no examples: it is built again
    return manifest


def _get(s3: Any, bucket: str, key: str) -> bytes | None:
    try:
        body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if error_code(error) in ("NoSuchKey", "NoSuchBucket", "404"):
            return None
        raise
    return body
